// Command nbrun makes Jupyter notebooks of lessons, which are Go programs, and runs notebooks cell by cell as GoNB does, the Go
// kernel of Jupyter, with nothing but Go.
//
//	nbrun make examples/01-a-claim          write the notebook of a lesson, without outputs, if the lesson changed
//	nbrun run --write examples/*/*.ipynb    run notebooks and write down what comes of each cell
//	nbrun run --check examples/*/*.ipynb    run them and compare with what is written down, byte for byte
//
// A lesson is the file main.go of a folder. The comment of its package introduces it. Its function main calls the steps, one after
// the other, and does nothing else; a step is a function without parameters and results. In the notebook, the comment of a step is
// text, and what it does is the cell below; what else the program declares stands in cells of its own, before the step that
// comes next. Comments are Go's (headings begin with #), and within a line Markdown.
//
// When a notebook runs, each cell is a program of its own, made of the cell and of all that the cells above it declare: variables
// start over. nbrun follows what GoNB notebooks have in common: declarations that replace one another by name, lines after %%
// as the main function, ! and !* for shell commands, %args and %env, what programs show through $GONB_PIPE. Unlike GoNB it
// does not add imports: a notebook names what it uses. A cell that does not compile, or whose program ends with another exit status
// than 0, fails, and ends the run, unless it has the tag raises-exception. Of a stack trace only the functions of cells are
// written down, since the rest is not the same twice.
//
// Cells are linked together in one program where none could tell the difference: what one declares under a new name, with no effect
// of its own, does not change what the cells before it do. One thing can differ: imported packages begin in all of them. A
// notebook that was run before, for --check and --write, runs with more cells linked together, as if it could not be told when the
// value of a variable is worked out; if then other outputs come than are written down, it runs again without that.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := nbrun(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

const usage = `usage: nbrun make [--check] FOLDER...
       nbrun run [--write | --check] [--limit 1m] [--jobs 2] NOTEBOOK...

make  writes FOLDER/NAME.ipynb, where NAME is the last of FOLDER's names, from the lesson FOLDER/main.go. A notebook whose
      cells are the lesson's already stays as it is, with its outputs; in a new one there are none.
  --check   write nothing; fail if a notebook is not its lesson's

run   runs each notebook from its first cell, as GoNB would, and says how it went.
  --write   write the outputs into the notebook
  --check   fail if the outputs are not those in the notebook, and tell the difference
  --limit   how long a cell may run, not counting its compilation
  --jobs    how many notebooks run beside one another

The exit status is 1 if a notebook fails or differs, 2 if the command line is wrong.
`

// nbrun is the command. It returns its exit status.
func nbrun(ctx context.Context, args []string, out, complaints io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(complaints, usage)
		return 2
	}
	flags := flag.NewFlagSet("nbrun "+args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	check := flags.Bool("check", false, "")
	r := runner{ctx: ctx, out: out}
	var work func(path string) error
	jobs := 1
	switch args[0] {
	case "make":
		work = func(path string) error { return makeOne(path, *check, out) }
	case "run":
		flags.BoolVar(&r.write, "write", false, "")
		flags.DurationVar(&r.limit, "limit", time.Minute, "")
		flags.IntVar(&jobs, "jobs", runtime.NumCPU(), "")
		work = r.run
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return 0
	default:
		fmt.Fprintf(complaints, "nbrun: there is no command %s\n%s", args[0], usage)
		return 2
	}
	err := flags.Parse(args[1:])
	r.check = *check
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return 0
	case err == nil && flags.NArg() == 0:
		err = errors.New("which? name at least one")
	case err == nil && r.check && r.write:
		err = errors.New("--write and --check exclude each other")
	}
	if err != nil {
		fmt.Fprintf(complaints, "nbrun %s: %v\n%s", args[0], err, usage)
		return 2
	}
	return forEach(flags.Args(), max(1, jobs), work, complaints)
}

// forEach does the work for each path, so many beside one another, and tells what fails.
func forEach(paths []string, jobs int, work func(string) error, complaints io.Writer) int {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		status int
		turns  = make(chan struct{}, jobs)
	)
	for _, path := range paths {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if err := work(path); err != nil {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(complaints, "%s: %v\n", path, err)
				status = 1
			}
		})
	}
	wait.Wait()
	return status
}

// makeOne makes the notebook of a lesson.
func makeOne(folder string, check bool, out io.Writer) error {
	made, err := makeNotebook(folder)
	if err != nil {
		return err
	}
	want, err := made.encode()
	if err != nil {
		return err
	}
	path := notebookPath(folder)
	committed, err := readNotebook(path)
	if err == nil {
		text, err := committed.withoutOutputs().encode()
		if err != nil {
			return err
		}
		if bytes.Equal(text, want) {
			return nil
		}
	} else if !errors.Is(err, os.ErrNotExist) && check {
		return err
	}
	if check {
		tell := "there is no notebook of it"
		if committed != nil {
			tell = "its notebook is not the lesson's\n" + sourceDifference(committed, made)
		}
		return fmt.Errorf("%s: make it anew by: nbrun make %s", tell, folder)
	}
	fmt.Fprintf(out, "%s: made, %d cells\n", path, len(made.cells))
	return os.WriteFile(path, want, 0o644)
}

// runner runs notebooks.
type runner struct {
	ctx          context.Context
	write, check bool
	limit        time.Duration
	out          io.Writer
	mu           sync.Mutex // for out
}

// run runs a notebook.
func (r *runner) run(path string) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := readNotebook(path)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	began := time.Now()
	var took, more cost
	var now []byte
	// What is expected, and comes, is right; all else must come of a run that hopes for nothing.
	if expects := (r.check || r.write) && n.hasOutputs(); expects {
		took, now, err = r.outputs(n, folder, true)
	}
	if now == nil || err != nil || !bytes.Equal(committed, now) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		more, now, err = r.outputs(n, folder, false)
		took = cost{cells: more.cells, builds: took.builds + more.builds, cpu: took.cpu + more.cpu}
	}
	if err != nil {
		return err
	}
	if r.check && !bytes.Equal(committed, now) {
		before, err := readNotebook(path)
		if err != nil {
			return err
		}
		told := difference(before, n)
		if told == "" {
			told = "  the outputs are the same, and written down otherwise\n"
		}
		return fmt.Errorf("its outputs are not those in the file (-), but these (+)\n%swrite them by: nbrun run --write %s", told, path)
	}
	if r.write && !bytes.Equal(committed, now) {
		if err := os.WriteFile(path, now, 0o644); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%s: ok, %d cells in %.1fs; %d programs, %.1fs of a processor\n",
		path, took.cells, time.Since(began).Seconds(), took.builds, took.cpu.Seconds())
	return nil
}

// outputs runs a notebook's cells, and returns the notebook as it is then.
func (r *runner) outputs(n *notebook, folder string, hopeful bool) (cost, []byte, error) {
	took, err := runNotebook(r.ctx, n, folder, r.limit, hopeful)
	if err != nil {
		return took, nil, err
	}
	now, err := n.encode()
	return took, now, err
}
