package simtest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
)

const clusterObject = "{apiVersion: big.example.com/v1, kind: Cluster, metadata: {name: db}, spec: {instances: 1, storage: {size: 1Gi}}}"

// acceptance returns how many of n specs that are drawn from a definition the server accepts, and the
// error of the last refusal.
func acceptance(t *testing.T, r CustomResource, n int) (accepted int, refusal error) {
	t.Helper()
	p, err := r.prepare("")
	testcheck.NoError(t, err)
	client, err := p.server(t.Context())
	testcheck.NoError(t, err)
	specs := rapid.Custom(func(rt *rapid.T) any { return values{rt, r.Values}.draw(p.resource.spec, specField, 0) })
	for i := range n {
		object := p.seed.DeepCopy()
		object.Object[specField] = specs.Example(i)
		options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
		if _, err := client.Create(t.Context(), object, options); err != nil {
			refusal = err
			continue
		}
		accepted++
	}
	return accepted, refusal
}

// Nearly all objects that are drawn from a large schema are valid.
func TestDrawnObjectsAreAccepted(t *testing.T) {
	testcheck.Stepped(t)
	accepted, refusal := acceptance(t, CustomResource{Definition: "testdata/clusters.yaml", Object: clusterObject}, 1000)
	t.Logf("%d of 1000 accepted; a refusal: %v", accepted, refusal)
	if accepted < 950 {
		t.Errorf("%d of 1000 drawn objects are accepted, want at least 950: %v", accepted, refusal)
	}
}
