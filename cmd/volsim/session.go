package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/explore/session"
)

type sessionOptions struct {
	story bool
}

const sessionHelp = `  create claim data 64Mi, create pod web data on=node-1, delete pod web, …   what a user does
  step, step 5, step ACTOR      what comes next happens; what this actor does next
  until NodeStageVolume         the world moves until this has been called
  settle, rest                  … until nothing can happen before the clock moves; until nothing is left to happen
  wait claim data Bound         … until this is so
  hold ACTOR, release ACTOR     an actor, or a whole part, is not moved any more; it is
  fail conflict [PART|VERB]     the next call goes wrong: conflict, refused, lost, hang, driver CODE, driver-lost CODE
  crash PART, reboot NODE, …    something befalls the world
  ?  what could happen next     =  how things are, and who believes otherwise
  !  the story so far           events, help, quit`

func newSession() *cobra.Command {
	var o sessionOptions
	cmd := &cobra.Command{
		Use:   "session [FILE]",
		Short: "Move a small world by hand, one action at a time",
		Long: "session makes a world of two nodes in which nothing happens by itself, does what FILE says, a line each, and then reads\n" +
			"on from the terminal. After each line it tells what happened. The same lines lead to the same world.\n\n" + sessionHelp + "\n\n" +
			"A FILE may begin with what the world is made of: nodes: 1, parts: pvcontroller, scheduler, selinux: on.\n\n" +
			"Exit status: 0 well, 1 a rule was broken, 2 the command line or a line was wrong.",
		Example: "  volsim session\n  printf 'create claim data 64Mi\\nstep 3\\n=\\n' | volsim session\n  volsim session lesson.txt --story </dev/null",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("want one FILE, or none"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runSession(cmd, args, o) },
	}
	cmd.Flags().BoolVar(&o.story, "story", false, "tell the whole story at the end")
	return cmd
}

func runSession(cmd *cobra.Command, args []string, o sessionOptions) (err error) {
	var ops session.Ops
	if len(args) == 1 {
		text, err := os.ReadFile(args[0])
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
	case s.Violation() != nil:
		fmt.Fprintln(out, "broken:", s.Violation())
		return exitError{status: 1}
	case wrong != nil:
		return exitError{status: 2}
	}
	return nil
}

// readLines does what is read, a line each, and returns the last error that it told of.
func readLines(ctx context.Context, s *session.Session, in io.Reader, out io.Writer) (wrong error) {
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); line {
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
	return errors.Join(wrong, lines.Err())
}

func printNext(out io.Writer, s *session.Session) {
	options := s.Next()
	if len(options) == 0 {
		fmt.Fprintln(out, "nothing, until a timer fires or somebody acts")
	}
	for _, each := range options {
		held := ""
		if each.Held {
			held = " (held)"
		}
		fmt.Fprintf(out, "  %s %s%s\n", each.Task, each.Description, held)
	}
}
