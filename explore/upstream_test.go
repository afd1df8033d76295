package explore_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
)

// resyncPeriod is the period in which upstream's controller lists all volumes again.
const resyncPeriod = 15 * time.Second

// upstreamFaults are defects of upstream's PersistentVolume controller. Each is a world in
// testdata/upstream, with the schedule under which it fails, and a controller with upstream's
// behaviour.
var upstreamFaults = []upstreamFault{
	{file: "claims-from-a-cache", between: none, extra: cachedClaims, config: holds, within: 34},
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
	for i, tt := range slices.Concat(upstreamFaults, upstreamAttachFaults) {
		t.Run(tt.file, func(t *testing.T) {
			sparse(t, i)
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

// controllers returns the PersistentVolume controller over a client, with its own directories.
func controllers(clientOf func(p cluster.ComponentContext) kubernetes.Interface,
	more func(p cluster.ComponentContext),
) []cluster.Component {
	return []cluster.Component{{Name: "pvcontroller", Start: func(p cluster.ComponentContext) error {
		var manager plugins.Manager
		machine := hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
		if err := manager.Register(hostpath.New(hostpath.Config{Caller: p.Process, Machine: machine})); err != nil {
			return err
		}
		pvcontroller.New(pvcontroller.Config{
			Process: p.Process, Client: clientOf(p), Informers: p.Informers,
			Recorder: p.Recorder(pvcontroller.EventSource), Plugins: &manager,
		})
		more(p)
		return nil
	}}}
}

func ownClient(p cluster.ComponentContext) kubernetes.Interface { return p.Client }

func nothingMore(cluster.ComponentContext) {}

// cachedClaims is the controller. Like upstream's, it looks up the claim of a released volume in
// its cache.
//
// Upstream: pkg/controller/volume/persistentvolume isVolumeReleased (v1.36).
func cachedClaims(asUpstream bool) []cluster.Component {
	if !asUpstream {
		return controllers(ownClient, nothingMore)
	}
	return controllers(func(p cluster.ComponentContext) kubernetes.Interface {
		return cachedClient{
			p.Client, p.Informers.Core().V1().PersistentVolumeClaims().Lister(),
			p.Informers.Core().V1().PersistentVolumes().Lister(),
		}
	}, nothingMore)
}

// cachedClient gets claims of released volumes from a cache.
type (
	cachedClient struct {
		kubernetes.Interface
		claims  corelisters.PersistentVolumeClaimLister
		volumes corelisters.PersistentVolumeLister
	}
	cachedCore struct {
		typedcorev1.CoreV1Interface
		cachedClient
	}
	cachedClaimsOf struct {
		typedcorev1.PersistentVolumeClaimInterface
		cachedClient
		namespace string
	}
)

func (c cachedClient) CoreV1() typedcorev1.CoreV1Interface {
	return cachedCore{c.Interface.CoreV1(), c}
}

func (c cachedCore) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return cachedClaimsOf{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.cachedClient, namespace}
}

func (c cachedClaimsOf) Get(ctx context.Context, name string,
	opts metav1.GetOptions,
) (*corev1.PersistentVolumeClaim, error) {
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, v := range volumes { // in any order: one is enough
		ref := v.Spec.ClaimRef
		if ref != nil && ref.Namespace == c.namespace && ref.Name == name && v.Status.Phase == corev1.VolumeReleased {
			return c.claims.PersistentVolumeClaims(c.namespace).Get(name)
		}
	}
	return c.PersistentVolumeClaimInterface.Get(ctx, name, opts)
}

// repeatedReads is the controller. Like upstream's, it reads the claim of a volume every 15 s while
// another claim has its name.
//
// Upstream: pkg/controller/volume/persistentvolume syncVolume (v1.36).
func repeatedReads(asUpstream bool) []cluster.Component {
	if !asUpstream {
		return controllers(ownClient, nothingMore)
	}
	return controllers(ownClient, func(p cluster.ComponentContext) {
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
