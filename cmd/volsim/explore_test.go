package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/explore/scenario"
)

// race fails if alice is late: bob has deleted the claim that she waits for.
const race = `# Alice and bob wait for one claim, and bob deletes it.
components: pvcontroller, pvcprotection
ends: differ
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data on=node-1
user bob
  wait claim data Bound
  delete claim data
`

func writeTemp(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExploreListsScenarios(t *testing.T) {
	status, out, errs := volsim(t.Context(), "explore", "--list")
	if status != 0 || errs != "" || !strings.Contains(out, "two-claims-two-volumes ") || !strings.Contains(out, "each claim gets") ||
		!regexp.MustCompile(`(?m)^limit-is-lowered .*\.$`).MatchString(out) {
		t.Errorf("status %d, stderr %q:\n%s", status, errs, out)
	}
	_, out, _ = volsim(t.Context(), "explore", "--list", "--quiet")
	names := strings.Fields(out)
	if len(names) != len(scenario.Book()) || len(names) != strings.Count(out, "\n") || names[0] != scenario.Book()[0].Name {
		t.Errorf("want one name per line:\n%s", out)
	}
}

func TestExploreReportsCompleteness(t *testing.T) {
	status, out, errs := volsim(t.Context(), "explore", "two-claims-two-volumes", "--strategy", "holds", "--states")
	if status != 0 || errs != "" || !strings.HasSuffix(out, "no failure with at most 1 hold\n") {
		t.Errorf("status %d, stderr %q:\n%s", status, errs, out)
	}
	if !regexp.MustCompile(`^\d+ schedules, \d+ histories, \d+ steps, \d+ states in [0-9.]+m?s, \d+ schedules/s: `).MatchString(out) {
		t.Errorf("summary:\n%s", out)
	}
}

// TestExploreSavesFailuresForReplay finds a failure and replays it, unchanged, with a corrected scenario and in another world.
func TestExploreSavesFailuresForReplay(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := volsim(t.Context(), "explore", writeTemp(t, "race.txt", race), "--out", dir)
	files, err := filepath.Glob(filepath.Join(dir, "race-L*.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("saved %v, %v", files, err)
	}
	if status != 1 || errs != "" {
		t.Errorf("status %d, stderr %q, want 1 and nothing", status, errs)
	}
	drawn := strings.TrimSuffix(files[0], ".txt") + ".svg"
	if _, err := os.Stat(drawn); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"violates L7 in schedule ", "\nsaved as " + files[0] + ", drawn in " + drawn + "\n",
		"in a Go test: simtest.Replay(t, simtest.Read(t, \"" + filepath.ToSlash(files[0]) + "\"), \"\")\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, want := range []string{
		"with 1 deviation", ">> alice is held", "bob deletes claim default/data", "\nviolation: L", "replay: volsim replay " + files[0],
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	status, out, _ = volsim(t.Context(), "replay", files[0], "--trace")
	if status != 1 || !strings.Contains(out, " is still violated\n") || !strings.Contains(out, "\tdeliver LIST persistentvolumes") {
		t.Errorf("replayed with status %d:\n%s", status, out)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	fixed := strings.Replace(string(text), "  delete claim data", "  wait claim data Bound", 1)
	status, out, _ = volsim(t.Context(), "replay", writeTemp(t, "fixed.txt", fixed))
	if status != 0 || !strings.Contains(out, " is no longer violated\n") {
		t.Errorf("fixed: replayed with status %d:\n%s", status, out)
	}
	other := strings.Replace(string(text), "hold: alice", "hold: nobody", 1)
	if _, out, _ = volsim(t.Context(), "replay", writeTemp(t, "other.txt", other)); !strings.Contains(out, "the schedule no longer fits this world") {
		t.Errorf("with a schedule of another world:\n%s", out)
	}
}

func TestExploreKeepsGoing(t *testing.T) {
	status, out, _ := volsim(t.Context(), "explore", writeTemp(t, "race.txt", race), "--out", t.TempDir(), "--keep-going", "--count", "600", "--json")
	var r searchResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 1 {
		t.Fatalf("status %d, %v:\n%s", status, err, out)
	}
	if r.Schedules != 600 || len(r.Failures) != 1 || r.Failures[0].Times < 2 || len(r.Failures[0].Schedule) != 1 {
		t.Errorf("found %+v, want one rule violated several times in 600 schedules", r)
	}
	if _, err := os.Stat(r.Failures[0].File); err != nil {
		t.Error(err)
	}
}

// TestExploreJobs checks that the result does not depend on the number of jobs.
func TestExploreJobs(t *testing.T) {
	file := writeTemp(t, "race.txt", race)
	var results []searchResult
	for _, jobs := range []string{"1", "3", ""} {
		args := []string{"explore", file, "--out", t.TempDir(), "--strategy", "random", "--json", "--quiet"}
		if jobs != "" {
			args = append(args, "--jobs", jobs)
		}
		status, out, errs := volsim(t.Context(), args...)
		var r searchResult
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != 1 || errs != "" || len(r.Failures) != 1 {
			t.Fatalf("status %d, %v, %s:\n%s", status, err, errs, out)
		}
		if want := cmp.Or(jobs, strconv.Itoa(min(runtime.GOMAXPROCS(0), jobsMax))); strconv.Itoa(r.Jobs) != want {
			t.Errorf("--jobs %q: %d jobs, want %s", jobs, r.Jobs, want)
		}
		r.Jobs, r.Seconds, r.Rate, r.Failures[0].File, r.Failures[0].Picture, r.Failures[0].Story = 0, 0, 0, "", "", ""
		results = append(results, r)
	}
	for _, r := range results[1:] {
		if !reflect.DeepEqual(results[0], r) {
			t.Errorf("one job: %+v\nseveral: %+v", results[0], r)
		}
	}
	for _, args := range []string{"--states --strategy holds", "--coverage", "--strategy exhaustive --depth 1"} {
		_, out, _ := volsim(t.Context(), append([]string{"explore", "two-claims-two-volumes", "--json", "--count", "20"}, strings.Fields(args)...)...)
		if !strings.Contains(out, `"jobs":1,`) {
			t.Errorf("%s: want one job, which counts each state once\n%s", args, out)
		}
	}
}

// TestExploreSaysWhatWasExercised checks the table of --coverage, --corpus, and what never held.
func TestExploreSaysWhatWasExercised(t *testing.T) {
	dir := t.TempDir()
	explore := []string{"explore", "two-claims-two-volumes", "--count", "60", "--quiet", "--coverage", "--corpus", dir}
	status, out, _ := volsim(t.Context(), explore...)
	if status != 0 || !strings.Contains(out, "\nCOMPONENT ") || !strings.Contains(out, "update persistentvolumeclaims") {
		t.Errorf("status %d:\n%s", status, out)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.txt")); err != nil || len(files) == 0 {
		t.Errorf("the corpus is empty: %v", err)
	}
	_, out, _ = volsim(t.Context(), append(explore, "--json")...)
	if !strings.Contains(out, `"stale":"persistentvolumes"`) || !strings.Contains(out, `"jobs":1,`) {
		t.Errorf("JSON:\n%s", out)
	}
	for _, tt := range []struct {
		header string
		status int
		says   string
	}{
		{"sometimes: a node is lost\n", 1, "\nnever reached: a node is lost\n"},
		{"", 0, ": no failure"},
	} {
		file := writeTemp(t, "named.txt", tt.header+"components: pvcontroller\nuser alice\n  create volume disk 1Gi\n")
		if status, out, _ := volsim(t.Context(), "explore", file, "--count", "5", "--quiet"); status != tt.status || !strings.Contains(out, tt.says) {
			t.Errorf("%q: status %d:\n%s", tt.header, status, out)
		}
	}
}

func TestExploreReportsInterrupts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status, out, _ := volsim(ctx, "explore", "pod-moves")
	if status != 130 || !strings.Contains(out, "interrupted; no failure so far") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestExploreRejectsInvalidInput(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"explore", "expected one SCENARIO"},
		{"explore a b", "expected one SCENARIO"},
		{"explore pod-moves --list", "expected one SCENARIO"},
		{"explore no-such", "unknown scenario"},
		{"explore " + writeTemp(t, "bad.txt", "weather: fine\n"), "weather"},
		{"explore " + writeTemp(t, "part.txt", "components: nosuch\nuser a\n  cordon node-1\n"), "nosuch"},
		{"explore pod-moves --strategy luck", "luck"},
		{"explore pod-moves --shard 0/8", "K from 1 to N"},
		{"explore pod-moves --shard 9/8", "K from 1 to N"},
		{"explore pod-moves --shard 2", "K from 1 to N"},
		{"explore pod-moves --count 0", "at least 1"},
		{"explore pod-moves --jobs 0", "invalid number of jobs 0: want at least 1"},
		{"explore pod-moves --faults rain(1)", "rain"},
		{"explore pod-moves --faults conflict", "unclosed parenthesis"},
		{"explore pod-moves --colour", "unknown flag"},
		{"explore pod-moves --faults crash(pvcontroler,1)", `no such target "pvcontroler" (have pvcontroller, `},
		{"explore pod-moves --faults reboot(node-9,1)", `no such target "node-9" (have node-1, node-2)`},
		{"explore pod-moves --faults hang(NodeStgae,0.1)", `no such target "NodeStgae" (have BindDevice, `},
		{"explore " + writeTemp(t, "faults.txt", "faults: crash(pvcontroler, 1)\nuser a\n  cordon node-1\n"), "(have pvcontroller, "},
		{"explore pod-moves --rule I999", `rule "I999": want one of I1, `},
		{"replay", "expected one FILE"},
		{"replay no-such", "not a readable file"},
	} {
		status, out, errs := volsim(t.Context(), strings.Fields(tt.args)...)
		if status != 2 || out != "" || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d, %q, stderr %q, want 2 and a line with %q", tt.args, status, out, errs, tt.want)
		}
	}
}

// TestIndexedJobExample checks that the API accepts the example's Job and that volsim accepts its command, with a separate
// shard for each index.
func TestIndexedJobExample(t *testing.T) {
	text, err := os.ReadFile("../../examples/indexed-job/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	if *job.Spec.CompletionMode != batchv1.IndexedCompletion || *job.Spec.Completions != 8 || *job.Spec.BackoffLimitPerIndex != 0 {
		t.Errorf("spec %+v", job.Spec)
	}
	command := job.Spec.Template.Spec.Containers[0].Command
	script, ok := strings.CutPrefix(command[len(command)-1], "exec volsim ")
	if !ok {
		t.Fatalf("command %q", command)
	}
	shell := exec.CommandContext(t.Context(), command[0], "-c", `printf '%s\n' `+script)
	shell.Env = append(os.Environ(), "JOB_COMPLETION_INDEX=3")
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSpace(string(out)), "\n")
	if !strings.Contains(string(out), "--shard\n4/8\n") {
		t.Errorf("arguments %q, want shard 4/8", args)
	}
	args = append(args, "--count", "1", "--out", t.TempDir())
	if status, _, errs := volsim(t.Context(), args...); status != 0 {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

// TestExploreSearchesSession searches the user actions of saved sessions, also of one that has users
// from a scenario.
func TestExploreSearchesSession(t *testing.T) {
	dir := t.TempDir()
	ops := "hold pvcontroller\nstep 3\ncreate volume disk 1Gi\n# a comment\ncreate claim data 1Gi class=\nrest\nwait claim data Bound\n" +
		"crash pvcontroller\nfail conflict\ndelete claim data\n" +
		"request DELETE /api/v1/persistentvolumes/disk\n"
	file := writeTemp(t, "saved.txt", "components: pvcontroller, pvcprotection, pvprotection\n"+ops)
	const note = "saved.txt is a session: its user actions are searched; 4 operations left out that run the world, hold tasks or make calls fail\n"
	status, out, errs := volsim(t.Context(), "explore", file, "--strategy", "holds", "--out", dir)
	if status != 0 || !strings.HasSuffix(errs, note) || !strings.HasSuffix(out, "no failure with at most 1 hold\n") {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
	file = writeTemp(t, "saved.txt", race+strings.NewReplacer("data", "more", "disk", "big").Replace(ops)+"wait claim more gone\nwait claim none gone\nwait claim none Bound\n")
	status, out, errs = volsim(t.Context(), "explore", file, "--quiet", "--out", dir)
	if status != 1 || errs != "" || !strings.Contains(out, "waits for claim none to be Bound") {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "saved-*.txt"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	acts := "user user\n  create volume big 1Gi\n  create claim more 1Gi class=\n  wait claim more Bound\n  let crash pvcontroller\n" +
		"  delete claim more\n  request DELETE /api/v1/persistentvolumes/big\n  wait claim more gone\n"
	if !strings.Contains(string(text), "user alice\n") || !strings.Contains(string(text), acts) {
		t.Errorf("saved as\n%s", text)
	}
	if status, out, errs := volsim(t.Context(), "replay", found[0]); status != 1 || errs != "" || !strings.HasSuffix(out, " is still violated\n") {
		t.Errorf("replay: status %d: %s\n%s", status, errs, out)
	}
	for text, want := range map[string]string{
		"step 3\n": "saved: no user action to search: add one, such as create claim data 64Mi\n", "nonsense now\n": "unknown act \"nonsense\"",
	} {
		if status, _, errs := volsim(t.Context(), "explore", writeTemp(t, "saved.txt", text)); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d: %s", text, status, errs)
		}
	}
}
