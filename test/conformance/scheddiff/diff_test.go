package scheddiff

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/scheduler"
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "1m"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	if err := withoutGoroutines(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// seeds are the seeds of the runs of TestSchedulers. Each draws 100 worlds.
const seeds = 20

// TestSchedulers compares decisions about drawn pods.
func TestSchedulers(t *testing.T) {
	counts := map[string]int{}
	for seed := range seeds {
		setSeed(t, seed+1)
		rapid.Check(t, func(rt *rapid.T) {
			objects, pods := drawWorld(rt)
			if text := compare(rt, objects, pods, nil, counts); text != "" {
				rt.Fatalf("%s\n%s", text, worldText(objects, pods))
			}
		})
	}
	t.Logf("decisions: %v", counts)
	for _, kind := range []string{"a node", "no node", "preemption", "after preemption"} {
		if counts[kind] < 20 {
			t.Errorf("%d decisions with %s", counts[kind], kind)
		}
	}
}

func setSeed(t *testing.T, seed int) {
	t.Helper()
	if err := flag.Set("rapid.seed", fmt.Sprint(seed)); err != nil {
		t.Fatal(err)
	}
}

// compare returns how a decision of ours differs from upstream's, "" if none does.
func compare(t rapid.TB, objects []volsim.Object, pods []*corev1.Pod, mutate func(*scheduler.Config), counts map[string]int) string {
	w, err := newWorld(objects, mutate)
	if err != nil {
		t.Fatal(err)
	}
	defer w.host.Close()
	for i, pod := range pods {
		want, got, err := w.schedule(pod)
		if err != nil {
			return fmt.Sprintf("%s: %v; ours %v", pod.Name, err, w.decision(pod.Name))
		}
		if !got.admittedBy(want) {
			return fmt.Sprintf("%s:\nours     %v\nupstream %v", pod.Name, got, want)
		}
		counts[map[bool]string{true: "a node", false: "no node"}[len(want.best) > 0]]++
		if err := w.start(pod.Name, time.Duration(i+1)*time.Minute); err != nil {
			t.Fatal(err)
		}
		if want.nominated == "" {
			continue
		}
		counts["preemption"]++
		if err := w.removeVictims(got.victims); err != nil {
			t.Fatal(err)
		}
		obj, _ := w.server.Get("pods", namespace, pod.Name)
		if want, err = judge(w.objects(), obj.DeepCopyObject().(*corev1.Pod)); err != nil {
			t.Fatal(err)
		}
		if got, err = w.settle(pod.Name, got.message); err != nil {
			t.Fatal(err)
		}
		if !got.admittedBy(want) {
			return fmt.Sprintf("%s, after its victims:\nours     %v\nupstream %v", pod.Name, got, want)
		}
		if err := w.start(pod.Name, time.Duration(i+1)*time.Minute); err != nil {
			t.Fatal(err)
		}
		counts["after preemption"]++
	}
	return ""
}

// worldText returns a world as YAML.
func worldText(objects []volsim.Object, pods []*corev1.Pod) string {
	var texts []string
	for _, pod := range pods {
		objects = append(objects[:len(objects):len(objects)], pod)
	}
	for _, obj := range objects {
		text, err := yaml.Marshal(obj)
		if err != nil {
			panic(err)
		}
		texts = append(texts, fmt.Sprintf("# %T\n%s", obj, text))
	}
	return strings.Join(texts, "---\n")
}
