package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/cmd/volsim/internal/page"
	"github.com/volsim/volsim/explore/session"
)

// runLines runs "volsim session" with lines as its standard input.
func runLines(t *testing.T, args []string, lines ...string) (status int, out string) {
	t.Helper()
	cmd := command(append([]string{"session"}, args...)...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	text, err := cmd.CombinedOutput()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

func TestSessionReadsHeadersAfterComment(t *testing.T) {
	status, out := runLines(t, nil, "# a small world", "components: pvcontroller", "", "nodes: 1", "hold none", "quit")
	want := "> # a small world\n> components: pvcontroller\n> nodes: 1\nsession: \"hold none\": no such component \"none\" (have pvcontroller)\n"
	if status != 2 || out != want {
		t.Errorf("status %d:\n%swant\n%s", status, out, want)
	}
}

func TestSessionReportsErrorOnce(t *testing.T) {
	status, out := runLines(t, nil, "foo bar", "quit")
	if want := "session: \"foo bar\": unknown operation \"foo\" (have "; status != 2 || !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 {
		t.Errorf("status %d: %q, want %q", status, out, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var text strings.Builder
	i := &interpreter{session: session.New().MustPlay(), out: &text}
	defer i.session.Close()
	if err := i.readLines(ctx, strings.NewReader("foo bar\n")); err == nil || strings.Contains(err.Error(), "foo") {
		t.Errorf("at the end: %v", err)
	}
}

// TestErrorsOfFilesNameTheLine includes those of lines that describe the world.
func TestErrorsOfFilesNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: 1\n# a comment\ncreate claim data 64Mi\nstep 0\n": "saved.txt: line 4: \"step 0\": step 0: want at least 1\n",
		"nodes: 1\nnodes: 0\nstep\n":                              "saved.txt: line 2: nodes: \"0\": want a number, at least 1\n",
		"components: none, foo\nstep\n":                           "saved.txt: cluster: no such component \"none\" (have pvcontroller",
	} {
		file := writeTemp(t, "saved.txt", text)
		for _, command := range []string{"replay", "session"} {
			if status, _, errs := volsim(t.Context(), command, file); status != 2 || !strings.Contains(errs, want) || strings.Contains(errs, "scenario session") {
				t.Errorf("%s: status %d: %s, want %s", command, status, errs, want)
			}
		}
	}
	if _, out := runLines(t, nil, "nodes: 1", "", "nodes: 0"); !strings.HasSuffix(out, "\nnodes: \"0\": want a number, at least 1\n") {
		t.Errorf("entered: %s", out)
	}
}

func TestSessionGoesBack(t *testing.T) {
	status, out := runLines(t, nil, "create claim data 64Mi", "step 3", "step 2", "hold none", "back 2", "=", "back 5", "=", "back", "back none")
	for _, want := range []string{
		"back at step 0, before \"step 3\"\nclaim default/data ", "back at step 0, before \"create claim data 64Mi\"\nno objects\nback: no operation yet\n",
		"back: invalid number \"none\"",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if status != 2 {
		t.Errorf("status %d", status)
	}
}

func TestSessionExplainsEveryVerb(t *testing.T) {
	for _, verb := range allVerbs() {
		if text, err := explain(verb); err != nil || !strings.HasPrefix(text, "  "+verb) {
			t.Errorf("help %s: %q, %v", verb, text, err)
		}
	}
	if _, err := explain("foo"); err == nil {
		t.Error("help foo: no error")
	}
	s := session.New().MustPlay()
	defer s.Close()
	for _, v := range verbs {
		if !slices.Contains([]string{"?", "=", "!", "events", "help", "quit", "back", "save"}, v.verb) {
			if err := s.Do(v.verb + " \x00"); err != nil && strings.Contains(err.Error(), "unknown operation") {
				t.Errorf("%s: %v", v.verb, err)
			}
		}
	}
}

func TestSessionCompletes(t *testing.T) {
	s := session.New("create claim data 64Mi").MustPlay()
	defer s.Close()
	i := &interpreter{session: s}
	for text, want := range map[string]string{
		"cre":                        "create ",
		"create cla":                 "create cla",
		"create clai":                "create claim ",
		"create pod web d":           "create pod web d",
		"create pod web da":          "create pod web data ",
		"create pod web data on":     "create pod web data on=node-",
		"create claim other 1Gi cla": "create claim other 1Gi class=",
		"delete claim ":              "delete claim data ",
		"set claim data s":           "set claim data size=",
		"wait claim data B":          "wait claim data Bound ",
		"until NodeSt":               "until NodeStageVolume ",
		"hold pvp":                   "hold pvprotection ",
		"step pvcontroller/cache persistentvolumec": "step pvcontroller/cache persistentvolumeclaims ",
		"crash pvcontr": "crash pvcontroller",
		"request PO":    "request POST ",
		"fail conf":     "fail conflict ",
		"pat":           "patch ",
		"patch cl":      "patch cla",
		"cordon n":      "cordon node-",
		"help ba":       "help back ",
		"nonsense ":     "nonsense ",
	} {
		var listed strings.Builder
		got, pos, ok := i.complete(text, len(text), &listed)
		if got != want || pos != len(want) || !ok {
			t.Errorf("%q: %q, position %d; %s", text, got, pos, listed.String())
		}
	}
	var listed strings.Builder
	if i.complete("create cla", len("create cla"), &listed); listed.String() != "claim  class\n" {
		t.Errorf("candidates %q", listed.String())
	}
}

// TestSavedFilesAreInterchangeable loads the files that a session, the page and a search save in
// the others.
func TestSavedFilesAreInterchangeable(t *testing.T) {
	dir := t.TempDir()
	bySession := filepath.Join(dir, "session.txt")
	if status, out := runLines(t, nil, "components: pvcontroller", "create volume disk 1Gi", "nonsense", "create claim data 1Gi class=", "step 5", "save "+bySession, "="); status != 2 || !strings.Contains(out, "saved as "+bySession) {
		t.Fatalf("status %d:\n%s", status, out)
	}
	p, err := page.NewStepped(page.SteppedConfig{Headers: []string{"nodes: 1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, op := range []string{"create volume disk 1Gi", "create claim data 1Gi class=", "step 5"} {
		if _, err := p.Do(op); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Do("until NodeStageVolume"); err == nil {
		t.Error("a volume is staged")
	}
	byPage := writeTemp(t, "page.txt", strings.Join(p.Ops(), "\n")+"\n")
	if status, _, errs := volsim(t.Context(), "explore", writeTemp(t, "race.txt", race), "--out", dir); status != 1 {
		t.Fatalf("status %d: %s", status, errs)
	}
	found, err := filepath.Glob(filepath.Join(dir, "race-L*.txt"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for _, c := range []struct{ file, story, outcome string }{
		{bySession, "> step 5\n", "no invariant violated, as expected by the file\n"},
		{byPage, "> step ", "no invariant violated, as expected by the file\n"},
		{found[0], "alice is held", "is still violated\n"},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		status, out, errs := volsim(t.Context(), "replay", c.file)
		if !strings.Contains(out, c.story) || !strings.HasSuffix(out, c.outcome) || (status == 1) != (c.file == found[0]) || errs != "" {
			t.Errorf("replay %s: status %d, %s\n%s", c.file, status, errs, out)
		}
		state := opsOf(string(text)).MustPlay().StateTable()
		if status, out := runLines(t, []string{c.file}, "="); status != 0 || !strings.HasSuffix(out, state) {
			t.Errorf("session %s: status %d, want\n%sgot\n%s", c.file, status, state, out)
		}
		if _, err := p.Load(string(text)); err != nil {
			t.Errorf("page: %v", err)
		}
		if got := session.Ops(p.Ops()).MustPlay().StateTable(); got != state {
			t.Errorf("page: want\n%sgot\n%s", state, got)
		}
		if _, err := p.Do("rest"); err != nil {
			t.Error(err)
		}
		before := strings.Join(p.Ops(), "\n")
		if _, err := p.Load("nonsense\n"); err == nil || strings.Join(p.Ops(), "\n") != before {
			t.Errorf("an invalid file: %v", err)
		}
	}
}

func TestBackCanBeInterrupted(t *testing.T) {
	var text strings.Builder
	i := &interpreter{session: session.New("create claim data 64Mi", "step 3", "step 2").MustPlay(), out: &text}
	defer func() { i.session.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := i.session
	_, err := i.execute(ctx, "back")
	if want := "back: interrupted; the session is as it was before\n"; err == nil || text.String() != want {
		t.Errorf("%v, %q; want %q", err, text.String(), want)
	}
	if i.session != before || i.session.Steps() != 5 {
		t.Errorf("at step %d", i.session.Steps())
	}
	if err := i.session.Do("step"); err != nil {
		t.Errorf("the session cannot continue: %v", err)
	}
}

// TestRequestsOfKubectlAreReplayed saves a world of the page that a client has changed. Other
// commands continue from it.
func TestRequestsOfKubectlAreReplayed(t *testing.T) {
	p, err := page.NewStepped(page.SteppedConfig{Headers: []string{"nodes: 1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/persistentvolumeclaims": `{"metadata":{"name":"data"},
			"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"cats.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Cat","plural":"cats"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if p.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	if _, err := p.Do("rest"); err != nil {
		t.Fatal(err)
	}
	file := writeTemp(t, "page.txt", strings.Join(p.Ops(), "\n")+"\n")
	status, out, errs := volsim(t.Context(), "replay", file)
	if status != 0 || errs != "" || !strings.Contains(out, "user creates claim default/data of 64Mi\n") || !strings.Contains(out, "to Bound") && !strings.Contains(out, "Bound\n") {
		t.Errorf("replay: status %d: %s\n%s", status, errs, out)
	}
	const cat = `request POST /apis/example.com/v1/cats {"apiVersion":"example.com/v1","kind":"Cat","metadata":{"name":"tom"}}`
	status, out = runLines(t, []string{file}, "=", cat, cat, "request GET /api/v1/pods", "request POST /api/v1/cats {}")
	for _, want := range []string{
		"claim default/data", "Bound to", "(rejected: cats.example.com \"tom\" already exists)\n",
		`want a request that writes: POST, PUT, PATCH, DELETE`, "answered 404: the server could not find the requested resource",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if status != 2 {
		t.Errorf("status %d", status)
	}
}
