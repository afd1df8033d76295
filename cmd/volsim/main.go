// Command volsim runs the Kubernetes storage control plane in one process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // the time zones of cron jobs, on machines without them

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/internal/cli"
)

func main() {
	silenceLogs()
	cli.Main(run)
}

// silenceLogs discards the log output of client-go and other libraries. The trace already records
// what matters.
func silenceLogs() { klog.SetLogger(logr.Discard()) }

// usage marks an error as one of the command line, or of a file named on it.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return cli.UsageError{Err: err}
}

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

// A shortError is an error whose text fits a line.
type shortError struct{ error }

// Error returns the shortened text.
func (e shortError) Error() string { return shorten(e.error.Error()) }

// Unwrap returns the wrapped error.
func (e shortError) Unwrap() error { return e.error }

// run executes the command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	streams := cli.NewStreams(ctx, stdout, stderr)
	root := &cobra.Command{
		Use:   "volsim",
		Short: "The Kubernetes storage control plane in one process",
		Long: "volsim runs the Kubernetes storage control plane in one process: a fake API server, the storage\n" +
			"controllers, kubelets, the CSI sidecars, and CSI drivers on real loop devices, on LVM or in memory.\n\n" +
			cli.StatusHelp,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDemo(), newServe(), newControllers(), newDriver(), newExplore(), newKnown(), newReplay(), newSession())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checkArguments(root)
	root.SetArgs(args)
	err := root.ExecuteContext(streams.Context())
	if err != nil {
		err = shortError{err}
	}
	return streams.End("volsim", err)
}

// checkArguments makes the errors of a command's arguments usage errors, also in its subcommands.
// cobra alone accepts unknown names of subcommands below the root, and unknown help topics.
func checkArguments(cmd *cobra.Command) {
	check := cmd.Args
	switch {
	case !cmd.Runnable():
		cmd.Args, cmd.RunE, cmd.DisableFlagsInUseLine = cobra.ArbitraryArgs, helpOrUnknown, true
		cmd.SuggestionsMinimumDistance = 2
	case cmd.Name() == "help":
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if found, rest, err := cmd.Root().Find(args); err != nil || len(rest) > 0 {
				return helpOrUnknown(found, rest)
			}
			return nil
		}
	case check != nil:
		cmd.Args = func(cmd *cobra.Command, args []string) error { return usage(check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		checkArguments(c)
	}
}

// helpOrUnknown is the function of a command that only has subcommands. It prints the help, or
// returns an error for an unknown subcommand.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", similar[0])
	}
	return usage(fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint))
}
