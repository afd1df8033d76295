// Command nbrun generates Jupyter notebooks from lessons, which are Go programs, and runs notebooks
// cell by cell like GoNB, the Go kernel of Jupyter. It requires only Go.
//
//	nbrun make examples/01-a-claim          write the notebook of a lesson, without outputs, if the lesson changed
//	nbrun run --write examples/*/*.ipynb    run notebooks and store the outputs of each cell
//	nbrun run --check examples/*/*.ipynb    run them and compare the outputs with the stored ones, byte for byte
//
// A lesson is the file main.go of a folder. Its package comment is the introduction. Its function
// main calls the steps in order and does nothing else. A step is a function without parameters and
// results. In the notebook the comment of a step becomes text, and its body becomes the cell below,
// unless it is empty.
// Other declarations become separate cells before the step that follows them. Comments use Go's
// syntax (headings begin with #), and Markdown within a line.
//
// Each cell runs as a separate program, built from the cell and the declarations of all cells above
// it, so variables start over. nbrun implements the common subset of GoNB: declarations replace
// earlier ones of the same name; lines after %% form the main function; ! and !* run shell
// commands; %args and %env; output through $GONB_PIPE. Unlike GoNB it does not add imports: a
// notebook imports what it uses. A cell fails if it does not compile or its program exits with a
// status other than 0. A failure ends the run, unless the cell has the tag raises-exception. Of a
// stack trace, nbrun stores only the functions of cells, because the rest differs between runs. A
// displayed SVG is stored as a PNG: JupyterLab shows no SVG of a notebook that the reader has not
// trusted yet, and nbconvert removes its stylesheet.
//
// nbrun links cells together into one program where the result is the same: declarations with new
// names and without side effects do not change earlier cells. One difference remains: the
// initialization of imported packages runs for all of them. For --check and --write, a notebook
// with stored outputs first runs with more cells linked together, on the assumption that the
// evaluation of variables has no visible effect. If the outputs then differ from the stored ones,
// it runs again without that assumption.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/volsim/volsim/internal/cli"
)

func main() { cli.Main(nbrun) }

const usage = `usage: nbrun make [--check] FOLDER...
       nbrun run [--write | --check] [--limit 1m] [--jobs 2] NOTEBOOK...

make  generates FOLDER/NAME.ipynb from the lesson FOLDER/main.go, where NAME is the base name of FOLDER. A notebook whose
      cells already match the lesson is left unchanged, with its outputs. A new notebook has no outputs.
  --check   write nothing; fail if a notebook does not match its lesson

run   runs the cells of each notebook in order, like GoNB, and reports the result.
  --write   store the outputs in the notebook
  --check   fail and print the difference if the outputs differ from the stored ones
  --limit   time limit of a cell, excluding compilation (default 1m)
  --jobs    number of notebooks to run concurrently (default the number of CPUs)

Exit status: 0 success, 1 a notebook failed or differs, 2 invalid command line.
`

// nbrun executes the command line and returns the exit status.
func nbrun(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := cli.NewStreams(ctx, stdout, stderr)
	return s.End("nbrun", execute(s, args))
}

func execute(s *cli.Streams, args []string) error {
	if len(args) == 0 {
		return invalid(errors.New("no command"))
	}
	flags := flag.NewFlagSet("nbrun "+args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	check := flags.Bool("check", false, "")
	r := runner{ctx: s.Context(), out: s.Out}
	var work func(path string) error
	jobs := 1
	switch args[0] {
	case "make":
		work = func(path string) error { return makeOne(path, *check, s.Out) }
	case "run":
		flags.BoolVar(&r.write, "write", false, "")
		flags.DurationVar(&r.limit, "limit", time.Minute, "")
		flags.IntVar(&jobs, "jobs", runtime.NumCPU(), "")
		work = r.run
	case "help", "-h", "-help", "--help":
		fmt.Fprint(s.Out, usage)
		return nil
	default:
		return invalid(fmt.Errorf("unknown command %q", args[0]))
	}
	err := flags.Parse(args[1:])
	r.check = *check
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(s.Out, usage)
		return nil
	case err == nil && flags.NArg() == 0:
		err = errors.New("no argument: specify at least one")
	case err == nil && r.check && r.write:
		err = errors.New("--write and --check are mutually exclusive")
	}
	if err != nil {
		return invalid(fmt.Errorf("%s: %w", args[0], err))
	}
	return forEach(s.Context(), flags.Args(), max(1, jobs), work, s.Err)
}

// invalid returns the error of an invalid command line.
func invalid(err error) error {
	return cli.UsageError{Err: fmt.Errorf("%w\n%s", err, strings.TrimSuffix(usage, "\n"))}
}

// forEach calls work for each path, at most jobs at a time, and prints the errors.
func forEach(ctx context.Context, paths []string, jobs int, work func(string) error, errs io.Writer) error {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		result error
		turns  = make(chan struct{}, jobs)
	)
	for _, path := range paths {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if err := work(path); err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(errs, "%s: %v\n", path, err)
				result = cli.Status(cli.Failure)
			}
		})
	}
	wait.Wait()
	return cmp.Or(result, ctx.Err())
}

// makeOne writes or checks the notebook of a lesson.
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
		problem := "no notebook of this lesson"
		if committed != nil {
			problem = "notebook does not match the lesson\n" + sourceDifference(committed, made)
		}
		return fmt.Errorf("%s: regenerate it with: nbrun make %s", problem, folder)
	}
	fmt.Fprintf(out, "%s: generated, %d cells\n", path, len(made.cells))
	return cli.WriteFile(path, want, 0o644)
}

// A runner runs notebooks.
type runner struct {
	ctx          context.Context
	write, check bool
	limit        time.Duration
	out          io.Writer
	mu           sync.Mutex // for out
}

// run runs a notebook and writes or checks its outputs.
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
	before, err := readNotebook(path)
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
	// Expected outputs are correct even if the run was optimistic; other outputs need a run that is not.
	if expects := (r.check || r.write) && n.hasOutputs(); expects {
		took, now, err = r.outputs(n, before, folder, true)
	}
	if now == nil || err != nil || !bytes.Equal(committed, now) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		more, now, err = r.outputs(n, before, folder, false)
		took = cost{cells: more.cells, builds: took.builds + more.builds, cpu: took.cpu + more.cpu}
	}
	if err != nil {
		return err
	}
	if r.check && !bytes.Equal(committed, now) {
		diff := difference(before, n)
		if diff == "" {
			diff = "  same outputs, stored in another form\n"
		}
		return fmt.Errorf("outputs differ from the stored ones (-stored +current)\n%sstore them with: nbrun run --write %s", diff, path)
	}
	if r.write && !bytes.Equal(committed, now) {
		if err := cli.WriteFile(path, now, 0o644); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%s: ok, %d cells in %.1fs; %d programs, %.1fs CPU\n",
		path, took.cells, time.Since(began).Seconds(), took.builds, took.cpu.Seconds())
	return nil
}

// outputs runs the cells of a notebook and returns the encoded notebook. committed is the notebook
// with the stored outputs.
func (r *runner) outputs(n, committed *notebook, folder string, hopeful bool) (cost, []byte, error) {
	took, err := runNotebook(r.ctx, n, folder, r.limit, hopeful)
	if err != nil {
		return took, nil, err
	}
	n.keepPictures(committed)
	now, err := n.encode()
	return took, now, err
}
