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

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// pictureOptions ask for a picture of a run.
type pictureOptions struct {
	file string
	kind string
}

// pictureKind is one that can be asked for.
type pictureKind struct {
	name string
	draw func([]trace.Record, picture.Options) *picture.Drawing
}

// pictureKinds are those that there are, the first where none is named.
var pictureKinds = []pictureKind{
	{"space-time", picture.SpaceTime},
	{"sequence", picture.Sequence},
	{"timeline", picture.Timeline},
	{"states", picture.States},
}

// pictureHelp is what the help of a command says of pictures.
const pictureHelp = "With --svg FILE what happened is drawn. --picture chooses between space-time (who knew what when), sequence (who asked\n" +
	"whom for what), timeline (what was when) and states (which states were gone through). A FILE that ends in .mmd gets\n" +
	"the text of a Mermaid diagram, one in .txt plain text, and - prints plain text instead of all else."

func (o *pictureOptions) addFlags(cmd *cobra.Command) {
	var names []string
	for _, p := range pictureKinds {
		names = append(names, p.name)
	}
	cmd.Flags().StringVar(&o.file, "svg", "", "draw what happened into `FILE`, as .svg, .mmd or .txt; - prints text")
	cmd.Flags().StringVar(&o.kind, "picture", names[0], "with --svg: "+strings.Join(names, ", "))
}

// validate finds what is wrong with the options before anything is run.
func (o *pictureOptions) validate(cmd *cobra.Command) error {
	if cmd.Flags().Changed("picture") && o.file == "" {
		return errors.New("--picture says what --svg FILE draws: give a FILE")
	}
	if !slices.ContainsFunc(pictureKinds, o.matches) {
		return fmt.Errorf("--picture=%s: want space-time, sequence, timeline or states", o.kind)
	}
	if o.file == "" || o.file == "-" {
		return nil
	}
	if end := filepath.Ext(o.file); !slices.Contains([]string{".svg", ".mmd", ".txt"}, end) {
		return fmt.Errorf("--svg=%s: want a FILE that ends in .svg, .mmd (Mermaid) or .txt, or -", o.file)
	}
	if info, err := os.Stat(filepath.Dir(o.file)); err != nil {
		return fmt.Errorf("--svg=%s: its directory has to be there: %w", o.file, err)
	} else if !info.IsDir() {
		return fmt.Errorf("--svg=%s: %s is not a directory", o.file, filepath.Dir(o.file))
	}
	return nil
}

func (o *pictureOptions) matches(p pictureKind) bool { return p.name == o.kind }

// replacesOutput tells whether the picture is all that is printed.
func (o *pictureOptions) replacesOutput() bool { return o.file == "-" }

// draw draws what happened, if that was asked for.
func (o *pictureOptions) draw(out io.Writer, records []trace.Record, what picture.Options) error {
	if o.file == "" {
		return nil
	}
	d := pictureKinds[slices.IndexFunc(pictureKinds, o.matches)].draw(records, what)
	if o.replacesOutput() {
		_, err := io.WriteString(out, d.Text())
		return err
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
	if err := writeAtomically(o.file, content); err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	return nil
}

// writeAtomically writes a file, or leaves what was there.
func writeAtomically(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
