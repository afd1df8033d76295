package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/ephemeral"
	"github.com/volsim/volsim/controllers/expand"
	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/controllers/serviceaccounttoken"
	"github.com/volsim/volsim/controllers/vacprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sidecars/resizer"
)

// A filterFunc returns the filters of a component's caches. Its argument returns these caches once
// they exist.
type filterFunc func(caches func() informers.SharedInformerFactory) []fake.Filter

// claimFilter returns a filter of claims that passes the changes for which match returns true.
func claimFilter(match func(old, new *corev1.PersistentVolumeClaim) bool) fake.Filter {
	return fake.Filter{Resource: "persistentvolumeclaims", Match: func(old, new fake.Object) bool {
		before, _ := old.(*corev1.PersistentVolumeClaim)
		after, _ := new.(*corev1.PersistentVolumeClaim)
		return match(before, after)
	}}
}

// ephemeralFilters passes only pods with generic ephemeral volumes, and the deletion of their claims.
func ephemeralFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "pods", Match: func(old, new fake.Object) bool {
			return old == nil && new != nil && ephemeral.HasVolumes(new.(*corev1.Pod))
		}},
		{Resource: "persistentvolumeclaims", Match: func(old, new fake.Object) bool {
			return new == nil && ephemeral.Wants(caches(), old.(*corev1.PersistentVolumeClaim))
		}},
	}
}

var (
	ephemeralWakes       = []wake{{resource: "pods", match: func(obj fake.Object) bool { return ephemeral.HasVolumes(obj.(*corev1.Pod)) }}}
	classProtectionWakes = []wake{{resource: "volumeattributesclasses"}}
)

// classProtectionFilters passes only changes of the classes that claims and volumes refer to.
func classProtectionFilters(func() informers.SharedInformerFactory) []fake.Filter {
	matches := func(old, new fake.Object) bool { return vacprotection.Matches(old, new) }
	return []fake.Filter{
		{Resource: "persistentvolumeclaims", Match: matches},
		{Resource: "persistentvolumes", Match: matches},
	}
}

// expandFilters passes only claims whose volumes are not those of CSI drivers.
func expandFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		claimFilter(func(old, new *corev1.PersistentVolumeClaim) bool { return expand.Concerns(caches(), old, new) }),
		{Resource: "persistentvolumes", Match: func(_, _ fake.Object) bool { return false }},
	}
}

// resizerFilters passes only claims that need expansion or modification. Volumes are read when one
// does.
func resizerFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		claimFilter(func(old, new *corev1.PersistentVolumeClaim) bool {
			return new != nil && resizer.NeedsSync(old, new)
		}),
		{Resource: "persistentvolumes", Match: func(_, _ fake.Object) bool { return false }},
	}
}

func namespaceFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{{
		Resource: "namespaces", Match: func(old, new fake.Object) bool { return namespace.Matches(old, new) },
	}}
}

func serviceAccountFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{
			Resource: "serviceaccounts", Fields: "metadata.name=" + serviceaccount.AccountName,
			Match: func(_, new fake.Object) bool { return new == nil },
		},
		{Resource: "namespaces", Match: func(_, new fake.Object) bool {
			return new != nil && serviceaccount.NeedsServiceAccount(caches(), new.(*corev1.Namespace))
		}},
	}
}

// tokenFilters passes secrets with tokens, and the deletion of service accounts.
func tokenFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "secrets", Fields: "type=" + string(corev1.SecretTypeServiceAccountToken)},
		{Resource: "serviceaccounts", Match: func(old, new fake.Object) bool {
			return new == nil || old != nil && old.GetUID() != new.GetUID()
		}},
	}
}

var tokenWakes = []wake{{resource: "secrets", match: func(obj fake.Object) bool { return serviceaccounttoken.IsToken(obj.(*corev1.Secret)) }}}

func rootCAFilters(rootCA string) filterFunc {
	return func(caches func() informers.SharedInformerFactory) []fake.Filter {
		return []fake.Filter{
			{
				Resource: "configmaps", Fields: "metadata.name=" + rootca.ConfigMapName,
				Match: func(_, new fake.Object) bool {
					return new == nil || !rootca.IsUpToDate(new.(*corev1.ConfigMap), rootCA)
				},
			},
			{Resource: "namespaces", Match: func(_, new fake.Object) bool {
				return new != nil && rootca.NeedsConfigMap(caches(), new.(*corev1.Namespace))
			}},
		}
	}
}
