package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/internal/cli"
)

type sessionOptions struct {
	story   bool
	history string
}

func newSession() *cobra.Command {
	var o sessionOptions
	cmd := &cobra.Command{
		Use:   "session [FILE]",
		Short: "Step through a small world manually",
		Long: "session creates a world of two nodes in which nothing runs by itself. It executes the lines of FILE, then reads\n" +
			"lines from standard input. After each line it prints what happened. The same lines always produce the same world.\n" +
			"A terminal gets a prompt with history and completion.\n\n" + sessionHelp + "\n\n" +
			"The first lines may configure the world: nodes: 1, components: pvcontroller, scheduler, selinux: on. FILE may be a saved\n" +
			"session or page, a scenario, or a failure saved by \"volsim explore\", whose users and schedule are stepped like any task.\n\n" +
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
	cmd.Flags().StringVar(&o.history, "history", "", "keep the history of the prompt in this `file` (default in memory)")
	cmd.Flags().BoolVar(&o.story, "story", false, "print the whole story at the end")
	return cmd
}

func runSession(cmd *cobra.Command, args []string, o sessionOptions) (err error) {
	var ops session.Ops
	file := "standard input"
	if len(args) == 1 {
		file = args[0]
		text, err := readFile(cmd.Context(), args[0])
		if err != nil {
			return usage(err)
		}
		ops = opsOf(string(text))
	}
	s, err := playFile(cmd.Context(), file, ops)
	if err != nil {
		return usage(err)
	}
	out := cmd.OutOrStdout()
	i := &interpreter{session: s, out: out}
	defer func() { err = errors.Join(err, i.session.Close()) }()
	if len(ops) > 0 && !o.story {
		fmt.Fprint(out, s.Story())
	}
	var wrong error
	if in := cmd.InOrStdin(); isPrompt(in) {
		wrong = i.prompt(cmd.Context(), o.history)
	} else {
		wrong = i.readLines(cmd.Context(), in)
	}
	s = i.session
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

// readLines executes the lines read from in until it ends or ctx does. It returns the last error of
// a line, or why reading ended.
func (i *interpreter) readLines(ctx context.Context, in io.Reader) (wrong error) {
	lines, ended := scanLines(ctx, in)
	for line := range lines {
		quit, err := i.execute(ctx, line)
		if quit {
			return wrong
		}
		if err != nil {
			wrong = err
		}
	}
	if err := ended(); err != nil {
		return err // the others were printed
	}
	return wrong
}

// opBytesMax is the maximum length of a line: a request with a body of the size that the server
// accepts, quoted.
const opBytesMax = 16 << 20

// scanLines returns the lines of in. The sequence ends with in or with ctx, also while in blocks.
// Call ended after the last line: it returns the error that ended the sequence.
func scanLines(ctx context.Context, in io.Reader) (lines iter.Seq[string], ended func() error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, opBytesMax)
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
