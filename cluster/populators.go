package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/datasourcevalidator"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
)

// addPopulators serves VolumePopulators and adds the component that warns of claims without one.
func (c *Cluster) addPopulators(cfg Config) error {
	if !cfg.VolumePopulators {
		return nil
	}
	if err := definitions.InstallText(context.Background(), c.server, datasourcevalidator.Definition); err != nil {
		return err
	}
	needsPopulator := func(obj fake.Object) bool {
		return datasourcevalidator.NeedsPopulator(obj.(*corev1.PersistentVolumeClaim))
	}
	return c.addComponent(cfg, recipe{
		name: "datasourcevalidator", replaces: "volume-data-source-validator",
		filters: func(func() informers.SharedInformerFactory) []fake.Filter {
			return []fake.Filter{claimFilter(func(old, claim *corev1.PersistentVolumeClaim) bool {
				return claim != nil && needsPopulator(claim) || old != nil && needsPopulator(old)
			})}
		},
		wakes: []wake{{resource: "persistentvolumeclaims", match: needsPopulator}},
		start: func(p ComponentContext) error {
			return datasourcevalidator.New(datasourcevalidator.Config{
				Process: p.Process, Informers: p.Informers, Recorder: p.Recorder(datasourcevalidator.EventSource),
			})
		},
	})
}
