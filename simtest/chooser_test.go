package simtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/simtest"
)

// FuzzBinding binds a claim in the order that the input chooses. The empty input is the default order.
func FuzzBinding(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 2, 1, 3})
	f.Fuzz(func(t *testing.T, choices []byte) {
		c, err := cluster.New(cluster.Config{
			Components: []string{"pvcontroller"}, Devices: cluster.Array, PreRegistered: true,
			Stepped: &sim.SteppedConfig{Chooser: sim.NewBytes(choices)},
		})
		testcheck.NoError(t, err)
		defer func() { testcheck.NoError(t, c.Close()) }()
		testcheck.NoError(t, c.Start(t.Context()))
		host := c.Host().(*sim.Stepped)
		for i, text := range []string{"create claim data 1Gi class=", "create volume disk 1Gi"} {
			act, err := scenario.ParseAct(text)
			testcheck.NoError(t, err)
			user := host.Process(fmt.Sprintf("user-%d", i))
			user.User("", func(ctx context.Context) { testcheck.NoError(t, act.Do(ctx, c, user)) })
		}
		testcheck.NoError(t, host.Run())
		claim, _ := c.Server().Get("persistentvolumeclaims", "default", "data")
		if phase := claim.(*corev1.PersistentVolumeClaim).Status.Phase; phase != corev1.ClaimBound {
			t.Errorf("the claim is %s:\n%s", phase, c.Trace().Text())
		}
	})
}

// counted runs three tasks that read a number and, after a call, write one more than they read. It
func counted(chooser sim.Chooser) (number int, choices []int) {
	recorder := &sim.Recorder{Chooser: chooser}
	host := sim.NewStepped(sim.SteppedConfig{Chooser: recorder})
	defer host.Close()
	c := host.Process("counter")
	for _, name := range []string{"a", "b", "c"} {
		c.Spawn(name, func(context.Context) {
			c.Call(trace.Action{Kind: trace.KindDriver, Verb: "Begin"}, func() trace.Outcome { return trace.Outcome{} })
			previous := number
			c.Call(trace.Action{Kind: trace.KindDriver, Verb: "Add"}, func() trace.Outcome { return trace.Outcome{} })
			number = previous + 1
		})
	}
	if err := host.Run(); err != nil {
		panic(err)
	}
	return number, recorder.Choices
}

// rapid finds a failing order with drawn choices, and shrinks it to few choices besides the default.
func TestDrawnChoices(t *testing.T) {
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "nofailfile=true")
	var last []int
	said, failed := listen(func(t testing.TB) {
		rapid.Check(t, func(rt *rapid.T) {
			number, choices := counted(simtest.NewChooser(rt))
			if last = choices; number < 3 && !slices.Equal(choices, make([]int, len(choices))) {
				rt.Fatalf("counted to %d", number)
			}
		})
	})
	deviations := len(slices.DeleteFunc(last, func(c int) bool { return c == 0 }))
	if !failed || deviations != 1 {
		t.Errorf("failed: %t, with %d deviations\n%s", failed, deviations, said)
	}
	if lines := strings.Count(said, "draw choices"); lines != 1 {
		t.Errorf("%d lines of draws, want 1:\n%s", lines, said)
	}
}

// Under all drawn orders the tasks count at most to three.
func ExampleNewChooser() {
	rapid.Check(t, func(rt *rapid.T) {
		if number, _ := counted(simtest.NewChooser(rt)); number > 3 {
			rt.Fatalf("counted to %d", number)
		}
	})
	fmt.Println(t.Failed())
	// Output: false
}
