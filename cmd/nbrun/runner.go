package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/volsim/volsim/internal/gonb"
)

// buildLimit is the time limit of a compilation or shell command. Either may be the first to
// compile all dependencies.
const buildLimit = 15 * time.Minute

// A run is one run of a notebook.
type run struct {
	ctx        context.Context
	limit      time.Duration // of a cell
	optimistic bool          // see memory.isIndependent
	folder     string        // of the notebook
	scratch    string        // contains the module of the cells, and the pipes
	env        []string      // variables set by %env
	memory     memory
	program    *program // program of the current cells
	cost       cost
}

// A cost is what the run of a notebook used.
type cost struct {
	cells, builds int
	cpu           time.Duration
}

// A program is a compiled program for several cells.
type program struct {
	path  string
	cells map[int]memory // memory after each cell
}

// errCell is the error of a cell that failed unexpectedly.
var errCell = errors.New("cell failed")

// runNotebook runs all cells of a notebook in order and stores their outputs in it. It stops at the
// first cell that fails without the tag raises-exception. An optimistic run links more cells
// together than is safe in general, so its outputs are reliable only if they equal the expected
// ones.
func runNotebook(ctx context.Context, n *notebook, folder string, limit time.Duration, hopeful bool) (cost, error) {
	scratch, err := os.MkdirTemp("", "nbrun-")
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(scratch)
	r := &run{ctx: ctx, limit: limit, optimistic: hopeful, folder: folder, scratch: scratch, memory: memory{}}
	if err := r.begin(); err != nil {
		return r.cost, err
	}
	var codes []*code
	for _, c := range n.cells {
		if c.isCode() {
			codes = append(codes, parseCell(len(codes)+1, c.source()))
		}
	}
	for i, c := range n.cells {
		if !c.isCode() {
			continue
		}
		r.cost.cells++
		outputs, err := r.cell(codes[r.cost.cells-1:])
		if outputs == nil {
			outputs = []any{}
		}
		c.doc["outputs"], c.doc["execution_count"] = outputs, r.cost.cells
		if errors.Is(err, errCell) && c.mayFail() {
			continue
		}
		if err != nil {
			return r.cost, fmt.Errorf("cell %s: %w", c.name(i), err)
		}
	}
	return r.cost, nil
}

// module is the folder in which cells are compiled.
func (r *run) module() string { return filepath.Join(r.scratch, "cells") }

// begin makes the module.
func (r *run) begin() error {
	if err := os.Mkdir(r.module(), 0o700); err != nil {
		return err
	}
	text, err := r.tool("mod", "init", "cells")
	if err != nil {
		return fmt.Errorf("go mod init: %w\n%s", err, text)
	}
	return nil
}

// cell runs the first of these cells; the others are those that will follow.
func (r *run) cell(codes []*code) (outputs []any, err error) {
	c := codes[0]
	for _, cmd := range c.commands {
		outs, err := r.command(cmd)
		outputs = append(outputs, outs...)
		if err != nil {
			return outputs, err
		}
	}
	if len(c.commands) > 0 {
		r.program = nil
		if err := r.copyChecksums(); err != nil {
			return outputs, err
		}
	}
	if c.err != nil {
		text := places(c.err.Error()) + "\n"
		return append(outputs, errorOutput(text)), fmt.Errorf("%w:\n%s", errCell, text)
	}
	if !c.hasGo {
		return outputs, nil
	}
	if r.program == nil || r.program.cells[c.number] == nil {
		if text, err := r.build(codes); err != nil {
			return outputs, err
		} else if text != "" {
			return append(outputs, errorOutput(text)), fmt.Errorf("%w: compilation failed:\n%s", errCell, text)
		}
	}
	r.memory = r.program.cells[c.number]
	outs, err := r.execute(c)
	return append(outputs, outs...), err
}

// command runs a line that is not Go. A failing command ends the cell. GoNB instead prints the
// error and continues.
func (r *run) command(cmd command) ([]any, error) {
	if !cmd.shell {
		if _, ok := cmd.setting("env"); !ok {
			return nil, nil
		}
		name, value, err := cmd.env()
		if err != nil {
			return nil, err
		}
		r.env = append(r.env, name+"="+value)
		r.program = nil
		return []any{streamOutput("stdout", fmt.Sprintf("Set: %s=%q\n", name, value))}, nil
	}
	shell := exec.Command("/bin/bash", "-c", cmd.text)
	shell.Dir, shell.Env = r.folder, r.environment()
	if cmd.module {
		shell.Dir = r.module()
	}
	got, err := runProcess(r.ctx, shell, buildLimit, r.scratch)
	r.cost.cpu += got.cpu
	if err == nil && got.status != "" {
		err = fmt.Errorf("%w: shell command: %s", errCell, got.status)
	}
	return got.outputs, err
}

// environment returns the environment of everything that a cell runs.
func (r *run) environment() []string {
	return append(append(os.Environ(), gonb.FolderEnv+"="+r.folder, gonb.ScratchEnv+"="+r.module()), r.env...)
}

// copyChecksums copies the checksums of locally replaced modules to the module of the cells, so
// that no network access is needed.
func (r *run) copyChecksums() error {
	mod, err := os.ReadFile(filepath.Join(r.module(), "go.mod"))
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for line := range strings.Lines(string(mod)) {
		_, target, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		target = strings.Trim(target, `"`)
		if !filepath.IsAbs(target) {
			target = filepath.Join(r.module(), target)
		}
		text, err := os.ReadFile(filepath.Join(target, "go.sum"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		sums.Write(text)
	}
	if sums.Len() == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(r.module(), "go.sum"), sums.Bytes(), 0o600)
}

// build builds the program of the first cell and of the following cells that can share it, because
// linking is most of the cost of a cell. If that fails, it compiles the first cell alone, to
// attribute the error. It returns the compiler's output.
func (r *run) build(codes []*code) (text string, err error) {
	p := &program{path: filepath.Join(r.scratch, "program"), cells: map[int]memory{}}
	m, err := r.memory.with(codes[0].decls)
	if err != nil {
		return places(err.Error()) + "\n", nil
	}
	p.cells[codes[0].number] = m
	together := codes[:1]
	for _, c := range codes[1:] {
		if c.err != nil || len(c.commands) > 0 || !m.isIndependent(c.decls, r.optimistic) {
			break
		}
		if m, err = m.with(c.decls); err != nil {
			break
		}
		if c.hasGo {
			p.cells[c.number] = m
			together = append(together, c)
		}
	}
	if text, err := r.compile(p, m, together); err != nil || text == "" || len(together) == 1 {
		r.program = p
		return text, err
	}
	m = p.cells[codes[0].number]
	p.cells = map[int]memory{codes[0].number: m}
	r.program = p
	return r.compile(p, m, codes[:1])
}

// compile compiles one program for the cells.
func (r *run) compile(p *program, m memory, cells []*code) (text string, err error) {
	cellsText, dispatch, err := compose(m, cells)
	if err != nil {
		return places(err.Error()) + "\n", nil
	}
	for name, text := range map[string]string{"main.go": cellsText, "dispatch.go": dispatch} {
		if err := os.WriteFile(filepath.Join(r.module(), name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	r.cost.builds++
	// Omitting debug information halves the cost of linking.
	text, err = r.tool("build", "-mod=mod", "-ldflags=-s -w", "-o", p.path, ".")
	var exit *exec.ExitError
	if errors.As(err, &exit) && r.ctx.Err() == nil {
		return places(text), nil
	}
	return "", err
}

// tool runs the go command in the module.
func (r *run) tool(args ...string) (text string, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = r.module(), append(r.environment(), "GOGC=400", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		r.cost.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return string(out), err
}

// execute runs the main function of a cell in a separate process.
func (r *run) execute(c *code) ([]any, error) {
	cmd := exec.Command(r.program.path, c.args...)
	cmd.Dir, cmd.Env = r.folder, append(r.environment(), fmt.Sprintf("%s=%d", cellEnv, c.number))
	got, err := runProcess(r.ctx, cmd, r.limit, r.scratch)
	r.cost.cpu += got.cpu
	if err == nil && got.status != "" {
		err = fmt.Errorf("%w: program ended with %s", errCell, got.status)
		if text := strings.TrimSuffix(stderrOf(got.outputs), got.status+"\n"); text != "" {
			err = fmt.Errorf("%w:\n%s", err, text)
		}
	}
	return got.outputs, err
}

// stderrOf returns what outputs contain of standard error.
func stderrOf(outputs []any) string {
	var b strings.Builder
	for _, output := range outputs {
		if o, ok := output.(map[string]any); ok && o["name"] == "stderr" {
			b.WriteString(joinLines(o["text"]))
		}
	}
	return b.String()
}
