package explore_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// resyncPeriod is the period in which upstream's controller lists all volumes again.
const resyncPeriod = 15 * time.Second

// upstreamFaults are defects of upstream's PersistentVolume controller. Each is a world in
// testdata/upstream, with the schedule under which it fails, and a controller with upstream's
// behaviour.
var upstreamFaults = []upstreamFault{
	{file: "claims-from-a-cache", between: none, extra: knownMutant("", "kubernetes-142332").extra, config: holds, within: 34},
	{file: "deleted-by-name", between: client("pvcontroller", byNameAlone), config: holds, within: 78},
	{file: "reads-a-claim-every-resync", between: none, extra: repeatedReads, config: holds, within: 1},
	{file: "exit-before-the-volume-is-saved", between: makesAnother, config: exits, within: 12},
}

// upstreamFault is one defect.
type upstreamFault struct {
	file    string
	between func() cluster.Interceptors // of the world with upstream's behaviour
	always  func() cluster.Interceptors // of the other world; nil for none
	extra   func(asUpstream bool) []cluster.Component
	config  explore.Config
	within  int // maximum of schedules until it is found, about twice the actual number
}

// TestUpstreamsFaults checks that each defect is found by search, and fails again under the
// recorded schedule. Our controller passes the same search and that schedule.
func TestUpstreamsFaults(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range slices.Concat(upstreamFaults, upstreamAttachFaults) {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "upstream", tt.file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			world := func(asUpstream bool) *scenario.Scenario {
				s, err := scenario.Parse(tt.file, string(text))
				if err != nil {
					t.Fatal(err)
				}
				if tt.extra != nil {
					s.Extra = tt.extra(asUpstream)
				}
				switch {
				case asUpstream:
					s.Interceptors = tt.between()
				case tt.always != nil:
					s.Interceptors = tt.always()
				}
				return s
			}
			pinned := world(true)
			m := mutant{name: tt.file, rule: pinned.Violates, config: tt.config}
			found := m.hunt(t, pinned.WithSchedule(nil, ""), tt.within)
			t.Logf("found in %d of %d: %v\nunder %s", found.Schedules, tt.within, found, found.Scenario.Schedule)

			if r := runOnce(t, pinned); scenario.RuleID(r.Failure) != pinned.Violates || r.Mismatch != "" {
				t.Errorf("under the recorded schedule: %v, %q; want a violation of %s",
					r.Failure, r.Mismatch, pinned.Violates)
			}
			if r := runOnce(t, world(false)); r.Failure != nil {
				t.Errorf("ours under that schedule: %v", r.Failure)
			}
			cfg := tt.config
			cfg.Count = 1000
			r, err := explore.Search(t.Context(), world(false).WithSchedule(nil, ""), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Failure; f != nil {
				t.Errorf("ours: %v\nunder %s", f, f.Scenario.Schedule)
			}
			if r.Complete == "" || r.Schedules < 2 {
				t.Errorf("ours: %d schedules, %q: want all of them", r.Schedules, r.Complete)
			}
		})
	}
}

// runOnce runs a world under its schedule.
func runOnce(t *testing.T, s *scenario.Scenario) *scenario.Result {
	t.Helper()
	r, err := s.Run(t.Context(), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// repeatedReads is the controller. Like upstream's, it reads the claim of a volume every 15 s while
// another claim has its name.
//
// Upstream: pkg/controller/volume/persistentvolume syncVolume (v1.36).
func repeatedReads(asUpstream bool) []cluster.Component {
	if !asUpstream {
		return known.VolumeController(known.OwnClient, nil)
	}
	return known.VolumeController(known.OwnClient, func(p cluster.ComponentContext) {
		claims := p.Informers.Core().V1().PersistentVolumeClaims().Lister()
		volumes := p.Informers.Core().V1().PersistentVolumes().Lister()
		queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "asking", Background: true})
		queue.Work(func(ctx context.Context, name string) error {
			v, err := volumes.Get(name)
			if err != nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
				return nil //nolint:nilerr // it is gone
			}
			ref := v.Spec.ClaimRef
			claim, err := claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
			if err != nil || claim.UID == ref.UID {
				return nil //nolint:nilerr // it is gone
			}
			_, err = p.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		var timer *sim.Timer
		timer = p.Process.NewBackgroundTimer("asking", func() {
			all, _ := volumes.List(labels.Everything())
			for _, v := range all { // one, in these worlds
				queue.Add(v.Name)
			}
			timer.Reset(resyncPeriod)
		})
		timer.Reset(resyncPeriod + time.Second)
	})
}
