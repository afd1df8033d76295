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
)

// Save writes a failure to a file in a directory, which it creates if necessary: the scenario with
// its schedule, and its story as comments. scenario.Parse reads the file. The name of the file
// consists of the scenario's name, the violated rule and a hash of the text, so that a failure that
// was saved before is overwritten. Save sets the File of the failure's scenario.
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(b.String())
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path)) // an incomplete file
	}
	return path, nil
}

// Replay runs a scenario under its schedule and compares the final state with that of the default
// order, as a search does.
func Replay(ctx context.Context, s *scenario.Scenario) (*scenario.Result, error) {
	r, err := s.Run(ctx, scenario.Options{})
	if err != nil || r.Failure != nil || s.OutcomesDiffer || len(s.Schedule) == 0 {
		return r, err
	}
	e := &search{scenario: s}
	if e.defaultRun, err = s.WithSchedule(nil, "").Run(ctx, scenario.Options{}); err == nil && e.defaultRun.Failure == nil {
		e.judge(r)
	}
	return r, err
}
