package components

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// runEtcd runs etcd's own main, which handles signals and ends the process by itself.
func runEtcd(_ context.Context, l launch) error {
	// Until etcd is up and handles signals, one shall end it, as by default.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	etcdmain.Main(append([]string{"etcd"}, l.args...))
	return nil
}
