package provisioner

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/customresource"
)

// grants is the kind of objects that allow references from other namespaces.
var grants = customresource.Kind[referenceGrant, *referenceGrant]{
	Resource: schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1beta1", Resource: "referencegrants"},
	Name:     "ReferenceGrant",
}

// A referenceGrant allows references to objects of its namespace.
//
// Upstream: sigs.k8s.io/gateway-api ReferenceGrant (v1beta1).
type referenceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		From []grantFrom `json:"from"`
		To   []grantTo   `json:"to"`
	} `json:"spec"`
}

// A grantFrom is the objects that may refer.
type grantFrom struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
}

// A grantTo is the objects to which they may refer.
type grantTo struct {
	Group string  `json:"group"`
	Kind  string  `json:"kind"`
	Name  *string `json:"name,omitempty"` // nil: all
}

// watchGrants retries claims when references from other namespaces become allowed.
func (c *Controller) watchGrants() error {
	known, informer, err := grants.Cache(c.cfg.Informers)
	if err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	c.grants = &known
	return onChange(informer, func(any) {
		c.requeueUnplaced(func(claim *corev1.PersistentVolumeClaim) bool {
			return dataSourceOf(claim) != nil && dataSourceOf(claim).namespace != claim.Namespace
		})
	})
}

// checkGranted returns an error if the data source of a claim is in another namespace, and no object
// there allows the reference.
//
// Upstream: external-provisioner pkg/controller dataSource, IsGranted (6.3.0).
func (c *Controller) checkGranted(claim *corev1.PersistentVolumeClaim, s *dataSource) error {
	if s.namespace == claim.Namespace {
		return nil
	}
	if c.grants != nil {
		for _, grant := range c.grants.List(s.namespace) {
			if grant.allows(claim.Namespace, s) {
				return nil
			}
		}
	}
	return fmt.Errorf("accessing %s/%s of %s dataSource from %s/%s isn't allowed",
		s.namespace, s.name, s.kind, claim.Namespace, claim.Name)
}

// allows reports whether a claim of a namespace may refer to a data source.
func (g *referenceGrant) allows(namespace string, s *dataSource) bool {
	for _, from := range g.Spec.From {
		if from.Group != "" || from.Kind != claimKind || from.Namespace != namespace {
			continue
		}
		for _, to := range g.Spec.To {
			if to.Group == s.group && to.Kind == s.kind && (ptr.Deref(to.Name, "") == "" || *to.Name == s.name) {
				return true
			}
		}
	}
	return false
}
