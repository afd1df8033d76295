package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/volsim/volsim/explore/session"
)

// An interpreter executes the lines of a session.
type interpreter struct {
	session *session.Session
	out     io.Writer
	echoes  bool // the line is visible already: at a prompt
}

// execute executes a line and prints its result or its error. quit reports whether the session
// ends.
func (i *interpreter) execute(ctx context.Context, line string) (quit bool, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return false, nil
	}
	s, text := i.session, strings.TrimSpace(line)
	switch {
	case text == "quit" || text == "exit":
		return true, nil
	case text == "help":
		fmt.Fprintln(i.out, sessionHelp)
	case words[0] == "help":
		var help string
		if help, err = explain(strings.Join(words[1:], " ")); err == nil {
			fmt.Fprint(i.out, help)
		}
	case text == "?":
		printNext(i.out, s)
	case text == "=":
		fmt.Fprint(i.out, s.StateTable())
	case text == "events":
		for _, e := range s.Events() {
			fmt.Fprintln(i.out, " ", e)
		}
	case text == "!":
		fmt.Fprint(i.out, s.Story())
	case words[0] == "back":
		err = i.back(ctx, words[1:])
	case words[0] == "save":
		err = i.save(strings.TrimSpace(strings.TrimPrefix(text, "save")))
	default:
		return false, i.operate(ctx, line)
	}
	if err != nil {
		fmt.Fprintln(i.out, err)
	}
	return false, err
}

// operate performs an operation, or a line that describes the world.
func (i *interpreter) operate(ctx context.Context, line string) error {
	all := i.session.Replayable()
	if _, ops := all.Then(line).Split(); len(ops) == 0 && !strings.HasPrefix(strings.TrimSpace(line), "#") {
		err := i.replace(ctx, all.Then(line))
		if err != nil { // the number of the line is that of the world's description
			err = errors.New(worldLine.ReplaceAllString(err.Error(), ""))
		}
		i.report(err, line, false)
		return err
	}
	before := i.session.Steps()
	line = strings.TrimSpace(line)
	err := i.session.DoContext(ctx, line)
	i.report(err, line, i.session.Steps() > before)
	return err
}

var worldLine = regexp.MustCompile(`^scenario session, line \d+: `)

// report prints the result of the last operation, or its error.
func (i *interpreter) report(err error, line string, advanced bool) {
	switch {
	case err == nil && i.echoes, advanced && i.echoes: // the story has the error
		_, last, _ := strings.Cut(i.session.Last(), "\n")
		fmt.Fprint(i.out, last)
	case err == nil:
		fmt.Fprint(i.out, i.session.Last())
	case i.echoes:
		fmt.Fprintln(i.out, strings.TrimPrefix(err.Error(), fmt.Sprintf("session: %q: ", line)))
	default:
		fmt.Fprintln(i.out, err)
	}
}

// replace replaces the session by one with other operations. The session remains on an error, also
// if ctx ends meanwhile.
func (i *interpreter) replace(ctx context.Context, ops session.Ops) error {
	s, err := play(ctx, ops)
	if err != nil {
		return err
	}
	old := i.session
	i.session = s
	return old.Close()
}

// back returns to the state before the last operations. The session remains if ctx ends meanwhile.
func (i *interpreter) back(ctx context.Context, args []string) error {
	count := 1
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || len(args) > 1 {
			return fmt.Errorf("back: invalid number %q: want at least 1", strings.Join(args, " "))
		}
		count = n
	}
	world, ops := i.session.Replayable().Split()
	upTo := len(ops)
	for ; count > 0 && upTo > 0; upTo-- {
		if !strings.HasPrefix(strings.TrimSpace(ops[upTo-1]), "#") {
			count--
		}
	}
	if upTo == len(ops) {
		return errors.New("back: no operation yet")
	}
	err := i.replace(ctx, world.Then(ops[:upTo]...))
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("back: interrupted; the session is as it was before")
	case err != nil:
		return err
	}
	fmt.Fprintf(i.out, "back at step %d, before %q\n", i.session.Steps(), shortOp(ops.WithoutSecrets()[upTo]))
	return nil
}

// shortOp returns an operation as it is named in a message: the body of a request may be long.
func shortOp(op string) string {
	const most = 80
	if all := []rune(op); len(all) > most {
		return string(all[:most]) + "…"
	}
	return op
}

// save writes the world and its operations to a file.
func (i *interpreter) save(name string) error {
	if name == "" {
		return errors.New("save: want a file")
	}
	lines := withPaths(i.session.Replayable().WithoutSecrets(), func(path string) string { return relativeTo(filepath.Dir(name), path) })
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	fmt.Fprintln(i.out, "saved as", name)
	return nil
}
