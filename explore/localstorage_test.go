package explore_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
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

// fullNodeWorld has a claim that the first node has no space for. An administrator closes that node.
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
  pass 1s
  cordon node-1
  wait pod web Running
`

const recordsID = "nodelocalstorages.localstorage.volsim.dev"

// storageRecord is what the rules read of a record.
type storageRecord struct {
	capacity, free resource.Quantity
	volumes        map[string]resource.Quantity
}

// storageRecordsOf returns the records of a world, by name.
func storageRecordsOf(w invariant.World) (map[string]storageRecord, error) {
	all := map[string]storageRecord{}
	for _, obj := range w.API.List(recordsID) {
		content := obj.(*fake.CustomObject).Content
		r := storageRecord{volumes: map[string]resource.Quantity{}}
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
	}
}

// TestLocalStorage searches the worlds of local storage with the rules, and with faults.
func TestLocalStorage(t *testing.T) {
	faults, err := sim.ParseFaultSpecs("conflict(0.05), driver-lost Internal(0.02), crash(2), reboot(node-1, 1)")
	testcheck.NoError(t, err)
	for name, text := range map[string]string{"life of a volume": localStorageWorld, "full node": fullNodeWorld} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Parse(name, text)
			testcheck.NoError(t, err)
			if got := s.String(); !strings.HasPrefix(got, "local-storage: on\n") && !strings.Contains(got, "\nlocal-storage: on\n") {
				t.Errorf("written as\n%s", got)
			}
			s.OwnRules, s.OutcomesDiffer = localStorageRules(), true
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
	} {
		t.Run(m.name, func(t *testing.T) {
			s, err := scenario.Parse(m.name, strings.Replace(m.world, "  delete pod web\n  wait pod web gone\n  delete claim data\n", "", 1))
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
