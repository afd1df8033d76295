package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "signal: " + e.signal.String() }

// Is reports whether target is [context.Canceled], for commands that return the cause of a context.
func (signalError) Is(target error) bool { return target == context.Canceled }

// Main calls run with the process's arguments and standard streams, and exits with the status that
// run returns. The context ends at SIGINT, SIGTERM and SIGHUP. A second SIGINT or SIGTERM ends the
// process at once, also if the program does not react to the first. A second SIGHUP does not: the
// kernel and the shell both send one when a terminal is closed. A write to a closed pipe returns an
// error and does not end the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, end := context.WithCancelCause(context.Background())
	ending := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ending = append(ending, syscall.SIGHUP)
	}
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, ending...)
	go func() {
		got, _ := (<-arrived).(syscall.Signal)
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
		end(signalError{got})
	}()
	// Unlike an ignored signal, one that is caught has its default effect in child processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
