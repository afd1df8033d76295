package explore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/known"
)

// A mutant is a small defect in one component of the world, and the rule that must detect it.
type mutant struct {
	name     string
	rule     string // the ID of the first rule that is violated
	history  string // issues about the same defect upstream; "" if none is known
	scenario string
	between  func() cluster.Interceptors           // the defect; created for each search
	extra    func(broken bool) []cluster.Component // components in addition to the control plane, or instead of one; nil for none
	config   explore.Config                        // the search; the zero value is a portfolio
	within   int                                   // maximum of schedules until it is found, about twice the actual number
	crowd    int                                   // the same with concurrent unrelated users; 0 skips that search
}

// deviationsMax is the maximum of deviations in the median schedule that detects a mutant.
const deviationsMax = 2

// spared is the minimum number of schedules that are run in the correct world.
const spared = 100

// sparse skips a row of a table in short tests, except for one in some.
func sparse(t *testing.T, row, some int) {
	t.Helper()
	if testing.Short() && row%some != 0 {
		t.Skipf("-short: only one row in %d is searched", some)
	}
}

// scene parses a row's scenario, with or without the defect, followed by additional text.
func (m mutant) scene(t *testing.T, broken bool, more string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse(m.name, m.scenario+more)
	if err != nil {
		t.Fatal(err)
	}
	if m.extra != nil {
		s.Extra = m.extra(broken)
	}
	if broken {
		s.Interceptors = m.between()
	}
	return s
}

// hunt searches for the defect. It fails the test if the search finds none, or the violation of
// another rule.
func (m mutant) hunt(t *testing.T, s *scenario.Scenario, count int) *explore.Failure {
	t.Helper()
	cfg := m.config
	cfg.Count = count
	r, err := explore.Search(t.Context(), s, cfg)
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Failure == nil:
		t.Fatalf("not detected in %d schedules: %s", r.Schedules, r.Complete)
	case r.Failure.Scenario.Violates != m.rule:
		t.Fatalf("detected by %s, want %s: %v\nunder %s", r.Failure.Scenario.Violates, m.rule,
			r.Failure, r.Failure.Scenario.Schedule)
	}
	return r.Failure
}

// spare runs the same search in the correct world, which must pass.
func (m mutant) spare(t *testing.T) {
	t.Helper()
	cfg := m.config
	cfg.Count = max(m.within, spared)
	r, err := explore.Search(t.Context(), m.scene(t, false, ""), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Failure; f != nil {
		t.Fatalf("the correct world fails: %v\nunder %s", f, f.Scenario.Schedule)
	}
}

// subjects returns the names of the objects that a scenario's users create.
func subjects(s *scenario.Scenario) []string {
	var names []string
	for _, u := range s.Users {
		for _, a := range u.Acts {
			if words := strings.Fields(a.String()); words[0] == "create" {
				names = append(names, words[2])
			}
		}
	}
	return names
}

// names reports whether a text contains one of some names.
func names(sentence string, objects []string) bool {
	return slices.ContainsFunc(objects, func(o string) bool { return strings.Contains(sentence, o) })
}

// everyMutant returns the rows of all tables, in the order of the tables.
func everyMutant() []mutant {
	return slices.Concat(claimMutants, pluginMutants, nodeMutants, attachMutants, restartMutants,
		ownershipMutants, subPathMutants, filesMutants, statefulSetMutants,
		deploymentMutants, daemonSetMutants, jobMutants, quotaMutants, deadNodeMutants, preemptionMutants,
		localStorageMutants, attributesMutants, snapshotMutants, containerMutants)
}

// TestMutants checks that every mutant is detected by its rule within the number of schedules in
// its row, and that the correct world passes the same search. The failures must be short and name
// an object of the scenario.
func TestMutants(t *testing.T) {
	rows := everyMutant()
	found := make([]*explore.Failure, len(rows))
	t.Run("each", func(t *testing.T) {
		for i, m := range rows {
			t.Run(m.name, func(t *testing.T) {
				sparse(t, i, 16)
				t.Parallel()
				f := m.hunt(t, m.scene(t, true, ""), m.within)
				if what := f.Error(); !names(what, append(subjects(f.Scenario), "pvc-", "node-", "csi-", "snap", "default/web", "default/pi", "default/backup")) {
					t.Errorf("the failure names no object of the scenario: %s", what)
				}
				m.spare(t)
				found[i] = f
			})
		}
	})
	var lengths []int
	for i, f := range found {
		if f == nil {
			continue // failed or skipped
		}
		lengths = append(lengths, len(f.Scenario.Schedule))
		t.Logf("%-60s %-4s found in %3d of %3d, %d deviations: %s\n\t%v",
			rows[i].name, rows[i].rule, f.Schedules, rows[i].within, len(f.Scenario.Schedule), f.Scenario.Schedule, f)
	}
	if slices.Sort(lengths); len(lengths) > 0 && !testing.Short() && lengths[len(lengths)/2] > deviationsMax {
		t.Errorf("the median schedule has %d deviations, want at most %d: %v",
			lengths[len(lengths)/2], deviationsMax, lengths)
	}
}

// The interceptors are those of the known bugs.
var (
	belongsTo = known.BelongsTo
	client    = known.Client
	driver    = known.Driver
)

type (
	invoking = known.Invoking
	invoke   = known.Invoke
)

// knownMutant returns a known bug as a mutant.
func knownMutant(name, bug string) mutant {
	b, err := known.Find(bug)
	if err != nil {
		panic(err)
	}
	m := mutant{
		name: name, rule: b.Rule, history: b.Repository + " " + strings.Join(b.Issues, ", "), scenario: b.Text,
		between: b.Interceptors, extra: b.Components, config: b.Config, within: b.Within,
	}
	if m.between == nil {
		m.between = none
	}
	return m
}

// inCrowd returns the mutant with a number of schedules with concurrent unrelated users.
func (m mutant) inCrowd(schedules int) mutant {
	m.crowd = schedules
	return m
}

// both combines the interceptors of two clients.
func both(one, other func() cluster.Interceptors) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		first, second := one(), other()
		return cluster.Interceptors{Client: func(process string, own *fake.Clientset) *fake.Clientset {
			return second.Client(process, first.Client(process, own))
		}}
	}
}

// strangers returns a second user who creates a number of unrelated volumes and claims.
func strangers(n int) string {
	var b strings.Builder
	fmt.Fprintln(&b, "user stranger")
	for i := range n {
		fmt.Fprintf(&b, "  create volume stranger-%d 1Gi class=strange\n", i)
		fmt.Fprintf(&b, "  create claim stranger-%d 1Gi class=strange\n", i)
	}
	return b.String()
}

// strangersCount is the number of unrelated volumes and claims in a crowd.
const strangersCount = 10

// TestMutantsInACrowd checks that unrelated objects do not hide a mutant: neither the schedule nor
// the failure names one of them. If they are at rest, the search takes no more schedules. If their
// users act concurrently, it takes more: holds are tried at each step, and the unrelated steps lie
// in between. A hold may also end too early, because it lasts for a fixed number of decisions of
// all tasks.
func TestMutantsInACrowd(t *testing.T) {
	for i, m := range everyMutant() {
		if m.crowd == 0 {
			continue
		}
		resting := func(t *testing.T) (*scenario.Scenario, int) {
			s := m.scene(t, true, "")
			s.Extra = append(s.Extra, residents(strangersCount))
			return s, m.within
		}
		acting := func(t *testing.T) (*scenario.Scenario, int) {
			return m.scene(t, true, strangers(strangersCount)), m.crowd
		}
		for kind, crowd := range map[string]func(t *testing.T) (*scenario.Scenario, int){
			"resting": resting,
			"acting":  acting,
		} {
			t.Run(m.name+", "+kind, func(t *testing.T) {
				sparse(t, i, 16)
				t.Parallel()
				s, count := crowd(t)
				f := m.hunt(t, s, count)
				t.Logf("found in %d of %d", f.Schedules, count)
				if words := f.Error() + f.Scenario.Schedule.String(); strings.Contains(words, "stranger") {
					t.Errorf("the failure names an unrelated object: %v\nunder %s", f, f.Scenario.Schedule)
				}
			})
		}
	}
}

// residents is a component that adds a number of volumes and claims that are already bound.
func residents(n int) cluster.Component {
	return cluster.Component{
		Name: "residents", Start: func(cluster.ComponentContext) error { return nil },
		Install: func(server *fake.Server) error {
			for i := range n {
				if err := server.Add(boundPair(fmt.Sprintf("stranger-%d", i))...); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// boundPair returns a volume and a claim with the same name that are bound to each other.
func boundPair(name string) []runtime.Object {
	class, uid := "strange", types.UID("uid-of-"+name)
	claim := cluster.NewClaim(name, "1Gi")
	claim.Namespace, claim.UID, claim.Finalizers = metav1.NamespaceDefault, uid, []string{"kubernetes.io/pvc-protection"}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, name
	size, modes := claim.Spec.Resources.Requests, claim.Spec.AccessModes
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: modes, Capacity: size}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name:       name,
		Finalizers: []string{"kubernetes.io/pv-protection"},
	}}
	volume.Spec = corev1.PersistentVolumeSpec{
		StorageClassName: class, Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef: &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1",
			Namespace: claim.Namespace, Name: name, UID: uid,
		},
	}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "other.example.com", VolumeHandle: name}
	volume.Status.Phase = corev1.VolumeBound
	return []runtime.Object{volume, claim}
}
