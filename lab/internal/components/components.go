// Package components holds the main functions of the lab's child processes: the real etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, KWOK and Karpenter, and kubectl. Each runs alone in its process, because they
// share global state (flags, logging, feature gates) and collide when they live in one.
//
// Only the segue-lab binary imports this package; everything else of the lab talks to the components over the API. It
// must never imitate or patch a component: where the lab needs a difference, it comes in by a flag or by an interface
// that the component offers.
package components

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/segue-dev/segue/lab/internal/lifeline"
)

// launch is what the lab itself tells a component, apart from the component's own flags.
type launch struct {
	// orphanDir is the state directory to remove when the parent is gone; empty for none.
	orphanDir string
	// awaitSocket is a Unix socket to wait for before the component runs; empty for none.
	awaitSocket string
	// fastClock caps Karpenter's waits at this duration; 0 is the stock clock.
	fastClock time.Duration
	// args are the component's own flags.
	args []string
}

// mains has the main function of each component. It returns when ctx ends or with the reason why it cannot go on.
var mains = map[string]func(ctx context.Context, l launch) error{
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"kwok":                    runKWOK,
	"karpenter":               runKarpenter,
}

// Run is the main function of a child process: args are NAME, the lab's flags, "--", and the component's own flags. The
// working directory is the lab's state directory. It returns when the component ends; a component whose parent is gone
// ends the process at once.
func Run(args []string) error {
	if len(args) == 0 {
		return errors.New("component: a name is missing")
	}
	name := args[0]
	run, ok := mains[name]
	if !ok {
		return fmt.Errorf("component %q: unknown", name)
	}
	l, err := parseLaunch(name, args[1:])
	if err != nil {
		return err
	}
	if err := lifeline.Watch(func() { removeOrphaned(l.orphanDir) }); err != nil {
		return fmt.Errorf("component %s: %w", name, err)
	}
	// Clients derive their user agent, and with it the name of the field manager, from the command line.
	os.Args = []string{name}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := awaitSocket(ctx, l.awaitSocket); err != nil {
		return fmt.Errorf("component %s: %w", name, err)
	}
	if err := run(ctx, l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func parseLaunch(name string, args []string) (launch, error) {
	var l launch
	flags := pflag.NewFlagSet("component "+name, pflag.ContinueOnError)
	flags.StringVar(&l.orphanDir, "remove-when-orphaned", "", "state directory to remove when the parent is gone")
	flags.StringVar(&l.awaitSocket, "await-socket", "", "Unix socket to wait for before running")
	flags.DurationVar(&l.fastClock, "fast-clock", 0, "cap for the waits of Karpenter")
	if err := flags.Parse(args); err != nil {
		return launch{}, fmt.Errorf("component %s: %w", name, err)
	}
	l.args = flags.Args()
	return l, nil
}

// removeOrphaned removes the state directory of a lab whose parent is gone. The other components are going at the same
// moment and may still write, hence the repeats.
func removeOrphaned(dir string) {
	if dir == "" {
		return
	}
	for range 40 {
		if err := os.RemoveAll(dir); err == nil {
			if _, err := os.Stat(dir); os.IsNotExist(err) {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitSocket returns once something accepts connections on the Unix socket at path. The parent ends this process when
// that takes too long.
func awaitSocket(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
