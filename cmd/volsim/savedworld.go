package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/explore/session"
	_ "github.com/volsim/volsim/fake/admission" // webhooks and policies
	"github.com/volsim/volsim/fake/crd"
)

// opsOf returns the lines of a file as operations.
func opsOf(text string) session.Ops {
	return strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
}

// play creates a world and performs the operations, until ctx ends. Like that of the page, the world
// serves definitions of custom resources. The error names the line.
func play(ctx context.Context, all session.Ops) (*session.Session, error) {
	world, ops := all.Split()
	s, err := world.Play()
	if err != nil {
		return nil, err
	}
	crd.Serve(s.Cluster().Server())
	for i, op := range ops {
		err := ctx.Err()
		if err == nil {
			err = s.DoContext(ctx, op)
		}
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			err = ctx.Err()
		default:
			err = fmt.Errorf("line %d: %s", len(world)+i+1, strings.TrimPrefix(err.Error(), "session: "))
		}
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// pathLines matches the lines of a world or session that contain paths.
var pathLines = regexp.MustCompile(`^(\s*apply\s+|definitions:)(.*)$`)

// manifestFile matches the path of an apply; see scenario.Act.
var manifestFile = regexp.MustCompile(`^[^\s{]+\.(yaml|yml|json)\s*$`)

// withPaths returns the lines with other relative paths.
func withPaths(lines session.Ops, moved func(path string) string) session.Ops {
	out := slices.Clone(lines)
	for i, line := range lines {
		m := pathLines.FindStringSubmatch(line)
		if m == nil || m[1] != "definitions:" && !manifestFile.MatchString(m[2]) {
			continue
		}
		var paths []string
		for path := range strings.SplitSeq(m[2], ",") {
			if path = strings.TrimSpace(path); path != "" && !filepath.IsAbs(path) {
				path = filepath.ToSlash(moved(path))
			}
			paths = append(paths, path)
		}
		out[i] = strings.TrimRight(m[1], " ") + " " + strings.Join(paths, ", ")
	}
	return out
}

// relativeTo returns a path from the working directory as one from a directory, if that is possible.
func relativeTo(dir, path string) string {
	from, err := filepath.Abs(dir)
	to, errTo := filepath.Abs(path)
	if err != nil || errTo != nil {
		return path
	}
	if short, err := filepath.Rel(from, to); err == nil {
		return short
	}
	return to
}

// playFile is play for the operations in a file. Relative paths begin in its directory.
func playFile(ctx context.Context, file string, all session.Ops) (*session.Session, error) {
	all = withPaths(all, func(path string) string { return relativeTo("", filepath.Join(filepath.Dir(file), path)) })
	s, err := play(ctx, all)
	if err != nil && ctx.Err() == nil {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "session: "), "scenario session, ")
		return nil, fmt.Errorf("%s: %s", file, text)
	}
	return s, err
}

// searchable returns what a search varies: the scenario of a session, in which one user performs the
// user actions and events of the operations. leftOut is the number of the other operations: those
// that run the world, hold tasks or make calls fail, which the search decides.
func searchable(name string, all session.Ops) (s *scenario.Scenario, leftOut int, err error) {
	world, ops := all.Split()
	var acts []scenario.Act
	for _, line := range ops {
		op := strings.TrimSpace(line)
		verb, _, _ := strings.Cut(op, " ")
		switch {
		case op == "" || strings.HasPrefix(op, "#"):
			continue
		case slices.Contains(searchVerbs, verb):
			leftOut++
			continue
		case slices.Contains(cluster.EventKinds, verb):
			op = "let " + op
		}
		act, err := scenario.ParseAct(op)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		acts = append(acts, act)
	}
	if len(acts) == 0 && !slices.ContainsFunc(world, isUser) {
		return nil, 0, fmt.Errorf("%s: no user action to search: add one, such as create claim data 64Mi", name)
	}
	if len(acts) > 0 {
		user := "user"
		if slices.Contains(world, "user "+user) {
			user = "session" // its users remain
		}
		world = world.Then("user " + user)
		for _, act := range acts {
			world = world.Then("  " + act.String())
		}
	}
	s, err = scenario.Parse(name, strings.Join(world, "\n"))
	return s, leftOut, err
}

// searchVerbs are the verbs of the operations that a search decides itself.
var searchVerbs = []string{"step", "until", "settle", "rest", "hold", "release", "fail", "tick"}

func isUser(line string) bool { return strings.HasPrefix(line, "user ") }
