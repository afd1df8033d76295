package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/internal/cli"
)

type sessionOptions struct {
	story bool
}

const sessionHelp = `  create claim data 64Mi, create pod web data on=node-1, delete pod web, …
                                   user actions
  step, step 5, step TASK          run the next step, the next 5 steps, the next step of a task
  until NodeStageVolume            run until this call has been made
  settle, rest                     run until nothing can happen before the clock advances; until nothing is left to do
  wait claim data Bound            run until this condition holds
  hold TASK, release TASK          stop scheduling a task, or all tasks of a component; schedule it again
  fail conflict [COMPONENT|VERB]   fail the next call: conflict, refused, lost, hang, driver CODE, driver-lost CODE
  crash COMPONENT, reboot NODE, …  inject an event
  ?                                print the possible next steps
  =                                print the state of the objects, and stale caches
  !                                print the story so far
  events, help, quit`

func newSession() *cobra.Command {
	var o sessionOptions
	cmd := &cobra.Command{
		Use:   "session [FILE]",
		Short: "Step through a small world manually",
		Long: "session creates a world of two nodes in which nothing runs by itself. It executes the lines of FILE, then reads\n" +
			"lines from standard input. After each line it prints what happened. The same lines always produce the same world.\n\n" + sessionHelp + "\n\n" +
			"A FILE may begin with headers that configure the world: nodes: 1, components: pvcontroller, scheduler, selinux: on.\n\n" +
			"Exit status: 0 success, 1 invariant violated, 2 invalid command line or line, 130 interrupted.",
		Example: "  volsim session\n  printf 'create claim data 64Mi\\nstep 3\\n=\\n' | volsim session\n  volsim session lesson.txt --story </dev/null",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("expected at most one FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runSession(cmd, args, o) },
	}
	cmd.Flags().BoolVar(&o.story, "story", false, "print the whole story at the end")
	return cmd
}

func runSession(cmd *cobra.Command, args []string, o sessionOptions) (err error) {
	var ops session.Ops
	if len(args) == 1 {
		text, err := readFile(cmd.Context(), args[0])
		if err != nil {
			return usage(err)
		}
		ops = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	}
	s, err := ops.Play()
	if err != nil {
		return usage(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out := cmd.OutOrStdout()
	if len(ops) > 0 && !o.story {
		fmt.Fprint(out, s.Story())
	}
	wrong := readLines(cmd.Context(), s, cmd.InOrStdin(), out)
	if o.story {
		fmt.Fprint(out, s.Story())
	}
	switch {
	case errors.Is(wrong, context.Canceled):
		return wrong
	case s.Violation() != nil:
		fmt.Fprintln(out, "violated:", s.Violation())
		return cli.Status(cli.Failure)
	case wrong != nil:
		return cli.Status(cli.Usage)
	}
	return nil
}

// readLines executes the lines read from in until it ends or ctx does, and returns the last error of
// a line.
func readLines(ctx context.Context, s *session.Session, in io.Reader, out io.Writer) (wrong error) {
	lines, ended := scanLines(ctx, in)
	for line := range lines {
		switch line = strings.TrimSpace(line); line {
		case "quit", "exit":
			return wrong
		case "help":
			fmt.Fprintln(out, sessionHelp)
		case "?":
			printNext(out, s)
		case "=":
			fmt.Fprint(out, s.StateTable())
		case "events":
			for _, e := range s.Events() {
				fmt.Fprintln(out, " ", e)
			}
		case "!":
			fmt.Fprint(out, s.Story())
		case "":
		default:
			if err := s.Do(line); err != nil {
				fmt.Fprintln(out, err)
				wrong = err
				continue
			}
			fmt.Fprint(out, s.Last())
		}
	}
	return errors.Join(wrong, ended())
}

// scanLines returns the lines of in. The sequence ends with in or with ctx, also while in blocks.
// Call ended after the last line: it returns the error that ended the sequence.
func scanLines(ctx context.Context, in io.Reader) (lines iter.Seq[string], ended func() error) {
	scanner := bufio.NewScanner(in)
	more := make(chan string)
	go func() {
		defer close(more)
		for scanner.Scan() {
			select {
			case more <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	lines = func(yield func(string) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case line, ok := <-more:
				if !ok || !yield(line) {
					return
				}
			}
		}
	}
	return lines, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return scanner.Err()
	}
}

func printNext(out io.Writer, s *session.Session) {
	options := s.Next()
	if len(options) == 0 {
		fmt.Fprintln(out, "nothing, until a timer fires or a user acts")
	}
	for _, each := range options {
		held := ""
		if each.Held {
			held = " (held)"
		}
		fmt.Fprintf(out, "  %s %s%s\n", each.Task, each.Description, held)
	}
}
