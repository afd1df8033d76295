package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace/picture"
)

// Save writes a failure to a file in a directory, which it creates if necessary: the scenario with
// its schedule, and its story and source as comments. scenario.Parse reads the file. The name of the file
// consists of the scenario's name, the violated rule and a hash of the text, so that a failure that
// was saved before is overwritten. A picture, whose name ends in .svg instead of .txt, is written
// next to it. Save sets the File of the failure's scenario, and Picture.
func Save(dir string, f *Failure) (path string, err error) {
	f.Scenario = f.Scenario.In(dir)
	text := f.Scenario.String()
	h := fnv.New32a()
	h.Write([]byte(text))
	name := fmt.Sprintf("%s-%s-%08x.txt", filepath.Base(cmp.Or(f.Scenario.Name, "drawn")), f.Scenario.Violates, h.Sum32())
	path = filepath.Join(dir, name)
	f.Scenario.File = path
	var b strings.Builder
	b.WriteString(text)
	b.WriteString("#\n")
	for line := range strings.Lines(scenario.Story(f.Scenario, f.Result)) {
		b.WriteString("# " + line)
	}
	if f.Result.Source != "" {
		b.WriteString("# source: " + f.Result.Source + "\n")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := writeFile(path, []byte(b.String())); err != nil {
		return "", err
	}
	drawing := strings.TrimSuffix(path, ".txt") + ".svg"
	if err := writeFile(drawing, f.picture()); err != nil {
		return "", err
	}
	f.Picture = drawing
	return path, nil
}

// picture draws the run.
func (f *Failure) picture() []byte {
	return picture.SpaceTime(f.Result.Trace.Records(), scenario.Picture(f.Scenario, f.Result)).SVG()
}

// writeFile writes a file at once: other processes see all of it or nothing.
func writeFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".writing-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Replay runs a scenario under its schedule and compares the final state with that of the default
// order, as a search does.
func Replay(ctx context.Context, s *scenario.Scenario) (*scenario.Result, error) {
	r, err := s.Run(ctx, scenario.Options{Callers: true})
	if err != nil || r.Failure != nil || s.OutcomesDiffer || len(s.Schedule) == 0 {
		return r, err
	}
	e := &search{scenario: s}
	if e.defaultRun, err = s.WithSchedule(nil, "").Run(ctx, scenario.Options{}); err == nil && e.defaultRun.Failure == nil {
		e.judge(r)
	}
	return r, err
}
