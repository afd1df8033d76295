// Command volsim runs the Kubernetes storage control plane in one process.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	ctx := interruptible(context.Background())
	silenceLogs()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// interruptible returns a context that ends with the first SIGINT or SIGTERM. A second one ends the
// process at once, also if the command does not react to the first.
func interruptible(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		signal.Stop(received)
		cancel()
	}()
	return ctx
}

// silenceLogs discards the log output of client-go and other libraries. The trace already records
// what matters.
func silenceLogs() { klog.SetLogger(logr.Discard()) }

// ignoreSIGPIPE lets a command remove its devices and mounts when the reader of its output has
// gone.
func ignoreSIGPIPE() { signal.Ignore(syscall.SIGPIPE) }

// An exitError ends a command with a status and without a message.
type exitError struct{ status int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// readFile reads a file until ctx ends, even if the file is a pipe without a writer.
func readFile(ctx context.Context, name string) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	read := make(chan content, 1)
	go func() {
		text, err := os.ReadFile(name)
		read <- content{text, err}
	}()
	select {
	case c := <-read:
		return c.text, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A usageError reports an invalid command line, or an invalid file named on it.
type usageError struct{ error }

func usage(err error) error { return usageError{err} }

// Unwrap returns the wrapped error.
func (u usageError) Unwrap() error { return u.error }

// run executes the command line and returns the exit status: 0 for success, 1 for a failure, 130
// for an interrupt. The commands explore, replay and session return 1 for a violation and 2 for a
// usage error.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "volsim",
		Short: "The Kubernetes storage control plane in one process",
		Long: "volsim runs the Kubernetes storage control plane in one process: a fake API server, the storage\n" +
			"controllers, kubelets, the CSI sidecars, and CSI drivers on real loop devices, on LVM or in memory.",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	searching := []*cobra.Command{newExplore(), newReplay(), newSession()}
	for _, c := range searching {
		c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	}
	root.AddCommand(newDemo(), newServe(), newControllers(), newDriver())
	root.AddCommand(searching...)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var done exitError
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted), ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "volsim:", shorten(err.Error()))
		return 130
	case errors.As(err, &done):
		return done.status
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "volsim:", shorten(err.Error()))
		return 2
	default:
		fmt.Fprintln(stderr, "volsim:", shorten(err.Error()))
		return 1
	}
}
