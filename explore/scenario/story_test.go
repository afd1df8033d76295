package scenario_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var update = flag.Bool("update", false, "write the stories to testdata")

// Each story explains the first failure that a search finds in a world with a defect.
func TestStories(t *testing.T) {
	rules := func(ids ...string) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Rules = ids }
	}
	between := func(b cluster.Interceptors) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Interceptors = b }
	}
	extra := func(parts ...cluster.Component) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Extra = parts }
	}
	type broken []func(*scenario.Scenario)
	twice := func(s *scenario.Scenario) {
		act, err := scenario.ParseAct("let replicate pvcontroller")
		if err != nil {
			t.Fatal(err)
		}
		s.Users = append(s.Users, scenario.User{Name: "dave", Acts: []scenario.Act{act}})
	}
	for _, tt := range []struct {
		name, scenario string
		broken         broken
		search         explore.Config
	}{
		{
			"unconditional-updates", "two-claims-one-volume",
			broken{rules("I1", "I2"), between(careless("pvcontroller")), twice},
			explore.Config{Strategy: explore.Holds, Depth: 2},
		},
		{
			"no-live-list", "claim-deleted-while-pod-starts",
			broken{rules("I28"), between(trusting("pvcprotection"))},
			explore.Config{Strategy: explore.Holds},
		},
		{"waits-for-ever", "two-claims-one-volume", broken{rules("L1"), between(absentMinded("pvcontroller"))}, explore.Config{Strategy: explore.Holds}},
		{"panic", "two-claims-one-volume", broken{rules("I1"), between(fragile("pvcontroller"))}, explore.Config{Strategy: explore.Holds}},
		{"restart", "claim-recreated", broken{rules("I1", "I2"), between(careless("pvcontroller"))}, explore.Config{Strategy: explore.Restarts}},
		{
			"livelock", "two-claims-two-volumes",
			broken{rules("I1"), extra(stubborn("keeper", corev1.PersistentVolumeReclaimRetain), stubborn("cleaner", corev1.PersistentVolumeReclaimDelete))},
			explore.Config{Strategy: explore.Holds},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := scenario.Find(tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range tt.broken {
				change(s)
			}
			report, err := explore.Search(t.Context(), s, tt.search)
			if err != nil || report.Failure == nil {
				t.Fatalf("%+v, %v", report, err)
			}
			f := report.Failure
			golden(t, tt.name, f.Scenario.String()+"\n"+scenario.Story(f.Scenario, f.Result))
		})
	}
}

var lineNumber = regexp.MustCompile(`\.go:\d+`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = lineNumber.ReplaceAllString(got, ".go:N")
	path := filepath.Join("testdata", name+".story")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}

// A story covers only the objects of the failure, whatever else is in the world, and is reproducible.
func TestStoryOmitsUnrelatedObjects(t *testing.T) {
	testcheck.Stepped(t)
	tell := func(pairs int) string {
		s, err := scenario.Find("claim-deleted-while-pod-starts")
		if err != nil {
			t.Fatal(err)
		}
		s.Rules, s.Interceptors = []string{"I28"}, trusting("pvcprotection")
		for i := range pairs {
			s.Users = append(s.Users, scenario.User{Name: fmt.Sprintf("other-%d", i), Acts: []scenario.Act{
				act(t, fmt.Sprintf("create volume noise-%d 1Gi class=n%d", i, i)),
				act(t, fmt.Sprintf("create claim noise-%d 1Gi class=n%d", i, i)),
			}})
		}
		report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
		if err != nil || report.Failure == nil {
			t.Fatalf("%+v, %v", report, err)
		}
		return scenario.Story(report.Failure.Scenario, report.Failure.Result)
	}
	alone, crowded := tell(0), tell(5)
	if strings.Contains(crowded, "noise") || strings.Count(crowded, "\n") != strings.Count(alone, "\n") {
		t.Errorf("with five more pairs:\n%s\nwant as many lines as without:\n%s", crowded, alone)
	}
	if again := tell(5); again != crowded {
		t.Errorf("the second story differs:\n%s", again)
	}
}

func act(t *testing.T, text string) scenario.Act {
	t.Helper()
	a, err := scenario.ParseAct(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDeviationsInWords(t *testing.T) {
	for deviation, want := range map[string]string{
		"3 hold: alice":                                          "alice is held",
		"3 hold: pvcontroller/claims":                            "pvcontroller/claims is held from here on",
		"3 hold: pvcprotection/cache pods":                       "the pod cache of pvcprotection is held from here on",
		"3 hold: pvcontroller#2/claims":                          "pvcontroller#2/claims is held from here on",
		"3 pick: attachdetach/volume_attach kubernetes.io/x^y#1": "attachdetach/volume_attach is scheduled out of order",
		"3 conflict: pvcontroller/claims":                        "fault: the next request of pvcontroller gets 409 Conflict, without effect",
		"3 refused: pvcontroller/claims":                         "fault: the next request of pvcontroller gets 503 Service Unavailable, without effect",
		"3 lost: pvcontroller/claims":                            "fault: the next request of pvcontroller takes effect, but its response is lost",
		"3 driver Unavailable: attacher/attachments":             "fault: the next driver call of attacher fails with Unavailable, without effect",
		"3 driver-lost Aborted: attacher/attachments":            "fault: the next driver call of attacher takes effect, but fails with Aborted",
		"3 hang: attacher/attachments":                           "fault: the next driver call of attacher takes effect, but gets no response",
	} {
		d, err := sim.ParseDeviation(deviation)
		if err != nil {
			t.Fatal(err)
		}
		story := scenario.Story(&scenario.Scenario{Schedule: sim.Schedule{d}}, &scenario.Result{Trace: &trace.Log{}, Stopped: true})
		if want := "   3  >> " + want + "\nno invariant violated before the run was stopped\n"; story != want {
			t.Errorf("%s: got\n%s\nwant\n%s", deviation, story, want)
		}
	}
}

func TestEventsInWords(t *testing.T) {
	for event, want := range map[string]string{
		"crash pvcontroller": "pvcontroller crashes and restarts",
		"crash pvcontroller with persistentvolumes 1 behind": "pvcontroller crashes and restarts, and its first list of volumes is 1 event old",
		"stop attacher":                 "attacher crashes and stays down",
		"start attacher":                "attacher starts",
		"replicate scheduler":           "a second scheduler starts: both are active",
		"relist scheduler pods":         "the watch of scheduler on pods breaks, and it lists again",
		"expire persistentvolumeclaims": "the API server drops the old events of claims: watches that lag must list again",
		"retire scheduler#2":            "scheduler#2 stops: one replica remains",
		"reboot node-1":                 "node-1 reboots: its kubelet restarts, and its mounts are lost",
		"partition node-1":              "node-1 is partitioned: its kubelet is down, its mounts remain",
		"restore node-1":                "node-1 is restored",
		"stop driver(node-1)":           "the driver on node-1 stops; its mounts remain",
		"start driver(node-1)":          "the driver on node-1 starts",
		"tick":                          "the clock advances, although a task could run",
		"strike node-1":                 "strike node-1",
	} {
		log := &trace.Log{}
		verb, object, _ := strings.Cut(event, " ")
		log.Append(trace.Record{Task: "world", HostStep: 7, Action: trace.Action{Kind: trace.KindEvent, Verb: verb, Object: object}})
		story := scenario.Story(&scenario.Scenario{}, &scenario.Result{Trace: log, Stopped: true})
		if want := "   7  >> " + want + "\n"; !strings.HasPrefix(story, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", event, story, want)
		}
	}
	for _, verb := range cluster.EventKinds {
		log := &trace.Log{}
		log.Append(trace.Record{Task: "world", HostStep: 7, Action: trace.Action{Kind: trace.KindEvent, Verb: verb, Object: "x"}})
		story := scenario.Story(&scenario.Scenario{}, &scenario.Result{Trace: log, Stopped: true})
		if strings.HasPrefix(story, "   7  >> "+verb+" x\n") {
			t.Errorf("%s has no words", verb)
		}
	}
}
