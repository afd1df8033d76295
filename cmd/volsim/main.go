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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	silenceLogs()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// silenceLogs keeps the libraries below from logging: what matters is in the trace.
func silenceLogs() { klog.SetLogger(logr.Discard()) }

// ignoreSIGPIPE lets a command that has devices and mounts to take away go on, and end in order, when nobody reads what it
// says any more.
func ignoreSIGPIPE() { signal.Ignore(syscall.SIGPIPE) }

// exitError is the error of a command that has said all there is to say.
type exitError struct{ status int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// usageError is a command line, or a file that it names, that is wrong.
type usageError struct{ error }

func usage(err error) error { return usageError{err} }

// Unwrap is the error itself.
func (u usageError) Unwrap() error { return u.error }

// run runs the command line and returns the exit status: 0, 1 for what went wrong, 130 when it was interrupted. "explore" and
// "replay" tell a failure that was found, 1, from a command line that is wrong, 2.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "volsim",
		Short: "The Kubernetes storage control plane in one process",
		Long: "volsim is the whole Kubernetes storage control plane in one process: a fake API server, the storage\n" +
			"controllers, kubelets, the CSI sidecars, and CSI drivers on real loop devices or in memory.",
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
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "volsim:", err)
		return 130
	case errors.As(err, &done):
		return done.status
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "volsim:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "volsim:", err)
		return 1
	}
}
