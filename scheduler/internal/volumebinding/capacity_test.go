package volumebinding

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCapacity(t *testing.T) {
	type capacities = []*storagev1.CSIStorageCapacity
	for name, test := range map[string]struct {
		capacities capacities
		want       string // the capacity that is found
	}{
		"network-attached": {capacities{capacity("net", provided, "", "1Gi", "")}, "net"},
		"local-storage":    {capacities{capacity("local", provided, "n1", "1Gi", "")}, "local"},
		"multiple": {capacities{
			capacity("c-net", provided, "", "1Gi", ""), capacity("b-n2", provided, "n2", "1Gi", ""),
			capacity("a-n1", provided, "n1", "1Gi", ""),
		}, "a-n1"},
		"no-storage":               {nil, ""},
		"wrong-node":               {capacities{capacity("net", provided, "n2", "1Gi", "")}, ""},
		"wrong-storage-class":      {capacities{capacity("net", waits, "n1", "1Gi", "")}, ""},
		"insufficient-storage":     {capacities{capacity("net", provided, "n1", "1Mi", "")}, ""},
		"insufficient-volume-size": {capacities{capacity("net", provided, "n1", "1Gi", "1Mi")}, ""},
		"zero-storage":             {capacities{capacity("net", provided, "n1", "0Mi", "")}, ""},
		"zero-volume-size":         {capacities{capacity("net", provided, "n1", "", "0Mi")}, ""},
		"nil-storage":              {capacities{capacity("net", provided, "n1", "", "")}, ""},
		// not in upstream's table
		"largest volume only":        {capacities{capacity("net", provided, "n1", "", "1Gi")}, "net"},
		"one of two is large enough": {capacities{capacity("a", provided, "n1", "1Mi", ""), capacity("b", provided, "n1", "1Gi", "")}, "b"},
		"available to no node": {capacities{func() *storagev1.CSIStorageCapacity {
			c := capacity("a", provided, "", "1Gi", "")
			c.NodeTopology = nil
			return c
		}()}, ""},
		"by two labels": {capacities{func() *storagev1.CSIStorageCapacity {
			c := capacity("a", provided, "n1", "1Gi", "")
			c.NodeTopology.MatchLabels["zone"] = "z"
			return c
		}()}, "a"},
		"by an expression": {capacities{
			byExpression("a", metav1.LabelSelectorOpNotIn), byExpression("b", metav1.LabelSelectorOpIn),
		}, "b"},
		"by two labels, one of another value": {capacities{func() *storagev1.CSIStorageCapacity {
			c := capacity("a", provided, "n1", "1Gi", "")
			c.NodeTopology.MatchLabels["zone"] = "y"
			return c
		}()}, ""},
	} {
		for _, publishes := range []bool{true, false} {
			t.Run(fmt.Sprintf("CSIDriver.StorageCapacity=%v/%s", publishes, name), func(t *testing.T) {
				w := newRig(t, Args{})
				w.cached(classes()...)
				w.cached(driver(publishes), toProvide)
				for _, c := range test.capacities {
					w.cached(c)
				}
				want := result{Volumes: map[string]string{"provided": ""}}
				switch {
				case publishes && test.want == "":
					want = result{Reasons: []string{noSpace}}
				case publishes:
					want.Capacities = map[string]string{"provided": test.want}
				}
				got, _ := w.find(pod("p", "provided"), node("n1", "zone", "z"))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func byExpression(name string, operator metav1.LabelSelectorOperator) *storagev1.CSIStorageCapacity {
	c := capacity(name, provided, "", "1Gi", "")
	c.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: operator, Values: []string{"z"}}}
	return c
}

// The capacity is compared with each claim alone.
func TestCapacityIsPerClaim(t *testing.T) {
	w := newRig(t, Args{})
	w.cached(classes()...)
	w.cached(driver(true), capacity("local", provided, "n1", "1Gi", ""), toProvide, claim("second", "1Gi", provided))
	got, _ := w.find(pod("p", "provided", "second"), node("n1"))
	want := result{
		Volumes:    map[string]string{"provided": "", "second": ""},
		Capacities: map[string]string{"provided": "local", "second": "local"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
