package explore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// localStorageWorld has a volume of a volume group from its class to nothing left, and a claim that the
// first node is too small for.
const localStorageWorld = `local-storage: on
user alice
  disk node-1 /dev/sdb 64Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  wait pod web Running
  delete pod web
  wait pod web gone
  delete claim data
`

// fullNodeWorld has a claim that the first node has no space for.
const fullNodeWorld = `local-storage: on
components: pvcontroller, scheduler, kubelet, localstorage
user alice
  disk node-1 /dev/sdb 16Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  wait pod web Running
`

// lateDiskWorld has a claim that waits for a disk.
const lateDiskWorld = `local-storage: on
components: pvcontroller, scheduler, kubelet, localstorage
user alice
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 32Mi class=fast
  create pod web data
  pass 1m
  disk node-2 /dev/sdb 64Mi block=true
  wait pod web Running
`

// lastSpaceWorld has two claims for the last space. The second one has it once the first is deleted.
const lastSpaceWorld = `local-storage: on
components: pvcontroller, pvcprotection, pvprotection, scheduler, kubelet, localstorage
user alice
  disk node-1 /dev/sdb 16Mi block=true
  disk node-2 /dev/sdb 64Mi block=true
  apply
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: fast}
    provisioner: localstorage.volsim.dev
    volumeBindingMode: WaitForFirstConsumer
    parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
  create claim data 40Mi class=fast
  create claim more 40Mi class=fast
  create pod web data
  create pod app more
  pass 1m
  delete pod web
  wait pod web gone
  delete claim data
  wait pod app Running
`

const recordsID = "nodelocalstorages.localstorage.volsim.dev"

// storageRecord is what the rules read of a record.
type storageRecord struct {
	revision       int64
	phase          string
	capacity, free resource.Quantity
	volumes        map[string]resource.Quantity
}

// storageRecordsOf returns the records of a world, by name.
func storageRecordsOf(w invariant.World) (map[string]storageRecord, error) {
	all := map[string]storageRecord{}
	for _, obj := range w.API.List(recordsID) {
		content := obj.(*fake.CustomObject).Content
		r := storageRecord{revision: revisionOf(obj.GetResourceVersion()), volumes: map[string]resource.Quantity{}}
		var failed error
		size := func(in map[string]any, field string) resource.Quantity {
			text, _, _ := unstructured.NestedString(in, field)
			if text == "" {
				text = "0"
			}
			q, err := resource.ParseQuantity(text)
			if err != nil {
				failed = err
			}
			return q
		}
		status, _, _ := unstructured.NestedMap(content, "status")
		r.phase, _, _ = unstructured.NestedString(status, "phase")
		r.capacity, r.free = size(status, "capacity"), size(status, "free")
		volumes, _, _ := unstructured.NestedSlice(status, "volumes")
		for _, each := range volumes {
			v := each.(map[string]any)
			r.volumes[v["name"].(string)] = size(v, "size")
		}
		if failed != nil {
			return nil, failed
		}
		all[obj.GetName()] = r
	}
	return all, nil
}

// localStorageRules are the rules of local storage.
func localStorageRules() []invariant.Rule {
	return []invariant.Rule{
		{ID: "LS1", Forbids: "at rest, a local volume that the record of its node lacks, or a listed volume without PersistentVolume", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{AtRest: func() error {
				records, err := storageRecordsOf(w)
				if err != nil {
					return err
				}
				listed := 0
				for _, r := range records {
					listed += len(r.volumes)
				}
				for _, obj := range w.API.List("persistentvolumes") {
					volume := obj.(*corev1.PersistentVolume)
					name := volume.Spec.StorageClassName + "." + volume.Annotations["localstorage.volsim.dev/node"]
					if _, has := records[name].volumes[volume.Name]; !has {
						return fmt.Errorf("record %s does not list %s", name, volume.Name)
					}
					listed--
				}
				if listed != 0 {
					return fmt.Errorf("%d listed volumes have no PersistentVolume", listed)
				}
				return nil
			}}
		}},
		{ID: "LS2", Forbids: "at rest, a volume group that is promised more than it has", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{AtRest: func() error {
				records, err := storageRecordsOf(w)
				if err != nil {
					return err
				}
				for name, r := range records {
					used := r.free.Value()
					for _, size := range r.volumes {
						used += size.Value()
					}
					if used != r.capacity.Value() {
						return fmt.Errorf("record %s: %d bytes are free or used, of %d", name, used, r.capacity.Value())
					}
				}
				return nil
			}}
		}},
		{ID: "LS3", Forbids: "a selected node that is removed from a claim while its record shows space", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{Commit: func(e fake.Commit) error {
				before, was := e.Before.(*corev1.PersistentVolumeClaim)
				after, is := e.After.(*corev1.PersistentVolumeClaim)
				if !was || !is || before.Annotations[storagehelpers.AnnSelectedNode] == "" || after.Annotations[storagehelpers.AnnSelectedNode] != "" {
					return nil
				}
				records, err := storageRecordsOf(w)
				if err != nil {
					return err
				}
				name := storagehelpers.GetPersistentVolumeClaimClass(after) + "." + before.Annotations[storagehelpers.AnnSelectedNode]
				r, reported := records[name]
				requested := after.Spec.Resources.Requests[corev1.ResourceStorage]
				if !reported || r.capacity.IsZero() || r.free.Cmp(requested) >= 0 {
					return fmt.Errorf("record %s: %s free of %s, %s requested", name, r.free.String(), r.capacity.String(), requested.String())
				}
				return nil
			}}
		}},
		{ID: "LS4", Forbids: "at rest, a claim of a pod without a volume, while a record shows space for it", Begin: func(w invariant.World) invariant.Checks {
			return invariant.Checks{AtRest: func() error {
				records, err := storageRecordsOf(w)
				if err != nil {
					return err
				}
				for _, obj := range w.API.List("persistentvolumeclaims") {
					claim := obj.(*corev1.PersistentVolumeClaim)
					if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || podOf(w, claim) == "" {
						continue
					}
					requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
					for name, r := range records {
						if r.phase == "Ready" && r.free.Cmp(requested) >= 0 && strings.HasPrefix(name, storagehelpers.GetPersistentVolumeClaimClass(claim)+".") {
							return fmt.Errorf("claim %s requests %s; record %s: %s free", claim.Name, requested.String(), name, r.free.String())
						}
					}
				}
				return nil
			}}
		}},
		{ID: "LS5", Forbids: "a full node that was removed from a claim and is selected again, although the extender has seen its record", Begin: selectedAgain},
	}
}

// podOf returns the pod that uses a claim; "" if there is none.
func podOf(w invariant.World, claim *corev1.PersistentVolumeClaim) string {
	for _, obj := range w.API.List("pods") {
		for _, v := range obj.(*corev1.Pod).Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name && obj.GetNamespace() == claim.Namespace {
				return obj.GetNamespace() + "/" + obj.GetName()
			}
		}
	}
	return ""
}

func revisionOf(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // of this server
	return n
}

// selectedAgain returns the checks of LS5. A node may be selected again by a scheduler that asked before the
// extender's cache had the record of the full node, or that got no answer.
func selectedAgain(w invariant.World) invariant.Checks {
	full := map[string]int64{}             // by claim and record: the revision of the record that showed too little space
	seen := map[string]int64{}             // by record: what the extender's cache has; "": all
	asked := map[string]map[string]int64{} // by pod: seen when the scheduler asked last
	return invariant.Checks{
		Commit: func(e fake.Commit) error {
			before, was := e.Before.(*corev1.PersistentVolumeClaim)
			after, is := e.After.(*corev1.PersistentVolumeClaim)
			if !is || !was {
				return nil
			}
			from, to := before.Annotations[storagehelpers.AnnSelectedNode], after.Annotations[storagehelpers.AnnSelectedNode]
			if from == to {
				return nil
			}
			records, err := storageRecordsOf(w)
			if err != nil {
				return err
			}
			class, requested := storagehelpers.GetPersistentVolumeClaimClass(after), after.Spec.Resources.Requests[corev1.ResourceStorage]
			if to == "" {
				full[string(after.UID)+class+"."+from] = records[class+"."+from].revision
				return nil
			}
			name := class + "." + to
			since, cleared := full[string(after.UID)+name]
			knew := asked[podOf(w, after)]
			r := records[name]
			if cleared && max(knew[name], knew[""]) >= since && r.free.Cmp(requested) < 0 && r.revision == since {
				return fmt.Errorf("claim %s: node %s again; record %s: %s free, %s requested", after.Name, to, name, r.free.String(), requested.String())
			}
			return nil
		},
		Record: func(r trace.Record) error {
			switch component, _, _ := strings.Cut(r.Task, "/"); {
			case r.Kind == trace.KindDeliver && component == "localstorage" && strings.HasPrefix(r.Object, "nodelocalstorages"):
				if r.Verb == "LIST" {
					clear(seen)
				}
				_, name, _ := strings.Cut(r.Object, "/")
				_, revision, _ := strings.Cut(r.Detail, "rv=")
				revision, _, _ = strings.Cut(revision, " ")
				seen[name] = revisionOf(revision)
			case r.Kind == trace.KindDriver && r.Verb == "ExtenderFilter":
				_, pod, _ := strings.Cut(r.Object, "/")
				if delete(asked, pod); r.Err == nil {
					asked[pod] = maps.Clone(seen)
				}
			}
			return nil
		},
	}
}

// TestLocalStorage searches the worlds of local storage with the rules, and with faults.
func TestLocalStorage(t *testing.T) {
	faults, err := sim.ParseFaultSpecs("conflict(0.05), driver-lost Internal(0.02), crash(2), reboot(node-1, 1)")
	testcheck.NoError(t, err)
	for name, text := range map[string]string{"life of a volume": localStorageWorld, "full node": fullNodeWorld, "last space": lastSpaceWorld, "late disk": lateDiskWorld} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Parse(name, text)
			testcheck.NoError(t, err)
			if got := s.String(); !strings.HasPrefix(got, "local-storage: on\n") && !strings.Contains(got, "\nlocal-storage: on\n") {
				t.Errorf("written as\n%s", got)
			}
			s.OwnRules, s.OutcomesDiffer = localStorageRules(), true
			if name == "late disk" { // a node is cleared because it has no group
				s.OwnRules = slices.DeleteFunc(s.OwnRules, func(r invariant.Rule) bool { return r.ID == "LS3" })
			}
			for _, search := range []explore.Config{
				{Strategy: explore.Holds, Depth: 1, Count: 60},
				{Strategy: explore.Random, Count: 40, Seed: 1, Faults: faults},
			} {
				report, err := explore.Search(t.Context(), s, search)
				testcheck.NoError(t, err)
				if report.Failure != nil {
					t.Fatalf("%v:\n%s", search.Strategy, scenario.Story(report.Failure.Scenario, report.Failure.Result))
				}
				t.Logf("%v: %d schedules, %d steps: %s", search.Strategy, report.Schedules, report.Steps, report.Complete)
			}
		})
	}
}

// TestLocalStorageMutants has defects of a manager. Each is found by its rule.
func TestLocalStorageMutants(t *testing.T) {
	isRecord := func(r fake.Request) bool { return r.Resource.Resource == "nodelocalstorages" }
	for _, m := range []struct {
		name, world, rule string
		mutate            func(own *fake.Clientset) fake.InterceptorFunc
	}{
		{"volumes are not reported", localStorageWorld, "LS1", func(*fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if obj, is := r.Body.(*fake.CustomObject); is && isRecord(r) {
					unstructured.RemoveNestedField(obj.Content, "status", "volumes")
				}
				return serve()
			}
		}},
		{"the free space is never reported again", localStorageWorld, "LS2", func(*fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if obj, is := r.Body.(*fake.CustomObject); is && isRecord(r) && obj.Content["status"] != nil {
					_ = unstructured.SetNestedField(obj.Content, "60Mi", "status", "free")
				}
				return serve()
			}
		}},
		{"the record of a full node shows space", fullNodeWorld, "LS3", func(*fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if obj, is := r.Body.(*fake.CustomObject); is && isRecord(r) && obj.Content["status"] != nil {
					_ = unstructured.SetNestedField(obj.Content, "60Mi", "status", "free")
				}
				return serve()
			}
		}},
		{"claims get no notice of more space", lateDiskWorld, "LS4", func(*fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				if r.Resource.Resource == "persistentvolumeclaims" && r.Verb == "patch" {
					return nil, nil
				}
				return serve()
			}
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			text := strings.Replace(m.world, "  delete pod web\n  wait pod web gone\n  delete claim data\n", "", 1)
			if m.rule == "LS4" {
				text = strings.Replace(m.world, "  wait pod web Running\n", "", 1)
			}
			s, err := scenario.Parse(m.name, text)
			testcheck.NoError(t, err)
			s.OwnRules, s.OutcomesDiffer, s.Interceptors = localStorageRules(), true, client("localstorage", m.mutate)()
			report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Count: 20, Rule: m.rule})
			testcheck.NoError(t, err)
			if report.Failure == nil {
				t.Fatalf("not found in %d schedules", report.Schedules)
			}
		})
	}
}

// acceptsEveryNode is an extender that does not look at the records.
var acceptsEveryNode = map[string]http.Handler{"http://localstorage.volsim.dev": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	args := extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames})
})}

// TestSelectedAgainIsFound has an extender that accepts every node.
func TestSelectedAgainIsFound(t *testing.T) {
	s, err := scenario.Parse("every node", fullNodeWorld)
	testcheck.NoError(t, err)
	s.OwnRules, s.OutcomesDiffer, s.Extenders = localStorageRules(), true, acceptsEveryNode
	report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Count: 20, Rule: "LS5"})
	testcheck.NoError(t, err)
	if report.Failure == nil {
		t.Fatalf("not found in %d schedules", report.Schedules)
	}
}

// TestFullNodeLivelocks runs the built-in scenario of a full node with an extender that accepts every node: in
// the default order the full node is selected and removed from the claim again and again, and the other node is
// never tried. With our extender two selections are enough.
func TestFullNodeLivelocks(t *testing.T) {
	s, err := scenario.Find("full-node")
	testcheck.NoError(t, err)
	run := func() (story string, failure error) {
		r, err := s.Run(t.Context(), scenario.Options{StepsMax: 1000})
		testcheck.NoError(t, err)
		return scenario.Story(s, r), r.Failure
	}
	story, failure := run()
	if n := strings.Count(story, "selects node-"); failure != nil || n < 1 || n > 2 {
		t.Errorf("%d selections, %v:\n%s", n, failure, story)
	}
	s.Extenders = acceptsEveryNode
	story, failure = run()
	if livelock := (*scenario.Livelock)(nil); !errors.As(failure, &livelock) || scenario.RuleID(failure) != "L7" {
		t.Fatalf("failure %v", failure)
	}
	selected, removed := strings.Count(story, "selects node-1 for claim"), strings.Count(story, "selected-node cleared")
	if selected < 10 || removed < 10 || strings.Contains(story, "selects node-2") {
		t.Errorf("selected %d times, removed %d times:\n%s", selected, removed, story)
	}
}
