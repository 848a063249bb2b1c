// Package lifeline is what a component of the lab, a child process, inherits from the process that runs the lab: a pipe
// that closes when the parent ends, however it ends, and, for components that serve HTTPS, a socket that already
// listens. It is linked into both sides and must stay small.
//
// The pipe is used instead of Linux's parent death signal because that one is tied to the thread that started the child,
// not to the process, and has a window between fork and prctl in which a dying parent goes unnoticed.
package lifeline

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// The descriptors under which a child finds what it inherits. They follow from the order in Files.
const (
	pipeFD     = 3
	listenerFD = 4
)

// Files is what the parent passes as exec.Cmd.ExtraFiles: the read end of the pipe and, unless it is nil, the listener.
// The parent keeps the write end of the pipe open for as long as the child shall live and gives it to nobody else.
func Files(pipe, listener *os.File) []*os.File {
	files := []*os.File{pipe}
	if listener != nil {
		files = append(files, listener)
	}
	return files
}

// Watch ends this process when the parent is gone, after onOrphan, which may be nil. It fails when this process was not
// started by a lab.
func Watch(onOrphan func()) error {
	pipe := os.NewFile(pipeFD, "lifeline")
	info, err := pipe.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return errors.New("a component is started by `segue-lab up`, never by hand: descriptor 3 is not the lab's pipe")
	}
	go func() {
		// Nothing is ever written; the copy returns when the last write end is closed, which only the parent holds.
		_, _ = io.Copy(io.Discard, pipe)
		if onOrphan != nil {
			onOrphan()
		}
		os.Exit(1)
	}()
	return nil
}

// Listener is the socket that the parent bound for this process. A port that is bound before the component starts cannot
// be taken by anybody else in between.
func Listener() (net.Listener, error) {
	file := os.NewFile(listenerFD, "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("take over the listening socket from the lab: %w", err)
	}
	return listener, nil
}
