package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/internal/cli"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// pictureOptions select a picture of a run.
type pictureOptions struct {
	file string
	kind string
}

// A pictureKind is a kind of picture.
type pictureKind struct {
	name string
	draw func([]trace.Record, picture.Options) *picture.Drawing
}

// pictureKinds lists the kinds; the first is the default.
var pictureKinds = []pictureKind{
	{"space-time", picture.SpaceTime},
	{"sequence", picture.Sequence},
	{"timeline", picture.Timeline},
	{"states", picture.States},
}

// pictureHelp is the help text about pictures, shared by several commands.
const pictureHelp = "--svg FILE draws the run. --picture selects the kind: space-time (writes and cache deliveries), sequence (calls between\n" +
	"processes), timeline (states over time) or states (state transitions). The extension of FILE selects the format: .svg,\n" +
	".mmd (Mermaid) or .txt (plain text). FILE - prints plain text instead of the other output."

func (o *pictureOptions) addFlags(cmd *cobra.Command) {
	var names []string
	for _, p := range pictureKinds {
		names = append(names, p.name)
	}
	cmd.Flags().StringVar(&o.file, "svg", "", "draw the run to `FILE` (.svg, .mmd or .txt); - prints text")
	cmd.Flags().StringVar(&o.kind, "picture", names[0], "kind of picture for --svg: "+strings.Join(names, ", "))
}

// validate returns an error for invalid options, before anything runs.
func (o *pictureOptions) validate(cmd *cobra.Command) error {
	if cmd.Flags().Changed("picture") && o.file == "" {
		return errors.New("--picture requires --svg FILE")
	}
	if !slices.ContainsFunc(pictureKinds, o.matches) {
		return fmt.Errorf("invalid --picture %q: want space-time, sequence, timeline or states", o.kind)
	}
	if o.file == "" || o.file == "-" {
		return nil
	}
	if end := filepath.Ext(o.file); !slices.Contains([]string{".svg", ".mmd", ".txt"}, end) {
		return fmt.Errorf("invalid --svg %q: want a file name ending in .svg, .mmd (Mermaid) or .txt, or -", o.file)
	}
	if info, err := os.Stat(filepath.Dir(o.file)); err != nil {
		return fmt.Errorf("invalid --svg %q: directory of the file: %w", o.file, err)
	} else if !info.IsDir() {
		return fmt.Errorf("invalid --svg %q: %s is not a directory", o.file, filepath.Dir(o.file))
	}
	return nil
}

func (o *pictureOptions) matches(p pictureKind) bool { return p.name == o.kind }

// replacesOutput reports whether the picture is printed instead of the other output.
func (o *pictureOptions) replacesOutput() bool { return o.file == "-" }

// draw draws the records, if a picture was requested.
func (o *pictureOptions) draw(out io.Writer, records []trace.Record, what picture.Options) error {
	if o.file == "" {
		return nil
	}
	d := pictureKinds[slices.IndexFunc(pictureKinds, o.matches)].draw(records, what)
	if o.replacesOutput() {
		fmt.Fprint(out, d.Text())
		return nil
	}
	var content []byte
	switch filepath.Ext(o.file) {
	case ".mmd":
		content = []byte(d.Mermaid())
	case ".txt":
		content = []byte(d.Text())
	default:
		content = d.SVG()
	}
	if err := cli.WriteFile(o.file, content, 0o644); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}
