package trace_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim/trace"
)

func TestDescribeAnyCoversEveryRecord(t *testing.T) {
	t.Parallel()
	api := func(verb, object string, out trace.Outcome) trace.Record {
		return trace.Record{Action: trace.Action{Kind: trace.KindAPI, Verb: verb, Object: object}, Outcome: out}
	}
	deliver := func(verb, object, detail string) trace.Record {
		return trace.Record{Action: trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, Outcome: trace.Outcome{Detail: detail}}
	}
	const claim = "persistentvolumeclaims/default/data"
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data")
	there := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data")
	aMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	guardedMap := aMap.DeepCopy()
	guardedMap.Finalizers = []string{"example.com/guard"}
	for _, tt := range []struct {
		name   string
		record trace.Record
		want   string
	}{
		{"as Describe", api("create", claim, trace.Outcome{After: newClaim}), "creates claim default/data of 1Gi"},
		{
			"what took effect although the answer was lost",
			api("create", claim, trace.Outcome{After: newClaim, Err: errors.New("timeout"), Lost: true}),
			"creates claim default/data of 1Gi, but the response is lost: timeout",
		},
		{"a read", api("get", claim, trace.Outcome{Detail: "rv=7"}), "reads claim default/data"},
		{"a read of nothing", api("get", claim, trace.Outcome{Err: gone}), "gets claim default/data: not found"},
		{"a list", api("list", "pods/default", trace.Outcome{Detail: "2 items rv=9"}), "lists the pods of default: 2 found"},
		{"an empty list", api("list", "storageclasses", trace.Outcome{Detail: "0 items rv=9"}), "lists the storage classes: none found"},
		{"a watch", api("watch", "pods", trace.Outcome{Detail: "rv=9"}), "watches the pods"},
		{"a write that comes too late", api("update", claim, trace.Outcome{Err: gone}), "cannot update claim default/data: not found"},
		{"what is there already", api("create", claim, trace.Outcome{Err: there}), "cannot create claim default/data: already exists"},
		{
			"a write that changes nothing", api("update", claim, trace.Outcome{Before: newClaim, After: newClaim}),
			"writes claim default/data without a relevant change",
		},
		{
			"a deletion of another kind", api("delete", "configmaps/default/m", trace.Outcome{Before: aMap, After: aMap, Gone: true}),
			"deletes configmap default/m",
		},
		{
			"a deletion that finalizers delay", api("delete", "configmaps/default/m", trace.Outcome{Before: aMap, After: guardedMap}),
			"deletes configmap default/m, which remains until its finalizers [example.com/guard] are removed",
		},
		{
			"the last finalizer", api("update", "configmaps/default/m", trace.Outcome{Before: guardedMap, After: aMap, Gone: true}),
			"removes the last finalizer from configmap default/m",
		},
		{"what a cache hears", deliver("ADDED", claim, "rv=7"), "sees claim default/data added"},
		{"that it has changed", deliver("MODIFIED", claim, "rv=8"), "sees claim default/data modified"},
		{"that it is gone", deliver("DELETED", claim, "rv=9"), "sees claim default/data deleted"},
		{"a cache that is filled", deliver("LIST", "persistentvolumes", "3 items rv=9"), "fills its cache with a list of the volumes: 3"},
		{"a driver call", trace.Record{Action: trace.Action{Kind: trace.KindDriver, Verb: "NodeGetInfo"}}, "calls NodeGetInfo"},
		{"work", trace.Record{Action: trace.Action{Kind: trace.KindWork, Verb: "sync", Object: "disk"}}, "starts work on disk"},
		{"a timer", trace.Record{Action: trace.Action{Kind: trace.KindTimer, Verb: "fire"}}, "handles its timer"},
		{"a sleep", trace.Record{Action: trace.Action{Kind: trace.KindSleep, Verb: "woke", Object: "5s"}}, "wakes after 5s"},
		{"a write of nothing that was known", api("delete", "pods/default/p", trace.Outcome{}), "writes pod default/p without a relevant change"},
		{"a wait", trace.Record{Action: trace.Action{Kind: trace.KindWait, Verb: "until", Object: "rest"}}, "resumes after waiting for rest"},
		{"an event", trace.Record{Action: trace.Action{Kind: trace.KindEvent, Verb: "reboot", Object: "node-1"}}, "reboot node-1"},
	} {
		if got := trace.DescribeAny(tt.record); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDescribeChangedClaimRef(t *testing.T) {
	t.Parallel()
	other := candidate(reservedVolume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "2" })
	freed := candidate(reservedVolume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
	write := func(before, after *corev1.PersistentVolume) trace.Record {
		return trace.Record{
			Action:  trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumes/pv"},
			Outcome: trace.Outcome{Before: before, After: after},
		}
	}
	expectDescription(t, write(reservedVolume, other), "reserves volume pv for claim default/data instead of its previous claim")
	expectDescription(t, write(reservedVolume, freed), "clears the claimRef of volume pv")
}
