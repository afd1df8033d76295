package cluster

import (
	"context"
	"net/http"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/volumegroup"
)

// localStorageName is the component of package localstorage that serves the extender.
const localStorageName = "localstorage"

// localStorageWakes are the classes of local storage.
var localStorageWakes = []wake{{resource: "storageclasses", match: func(obj fake.Object) bool {
	return obj.(*storagev1.StorageClass).Provisioner == localstorage.Provisioner
}}}

// addLocalStorage adds the components of package localstorage.
func (c *Cluster) addLocalStorage(cfg Config) error {
	if !cfg.LocalStorage {
		return nil
	}
	if err := definitions.InstallText(context.Background(), c.server, localstorage.Definition); err != nil {
		return err
	}
	if err := c.addComponent(cfg, localStorageController(c.localStorage.Store)); err != nil {
		return err
	}
	for _, n := range c.nodes {
		var err error
		if n.groups, err = c.driver.volumeGroups(n.name); err != nil {
			return err
		}
		if err := c.addComponent(cfg, localStorageManager(n.name, n.groups, n.storage.Store)); err != nil {
			return err
		}
	}
	return nil
}

// localStorageController returns the component that checks classes and serves the extender.
func localStorageController(started func(*localstorage.Controller)) recipe {
	return recipe{name: localStorageName, wakes: localStorageWakes, start: func(p ComponentContext) error {
		client, err := p.dynamicClient()
		if err != nil {
			return err
		}
		controller, err := localstorage.NewController(localstorage.ControllerConfig{
			Process: p.Process, Client: p.Client, Dynamic: client, Informers: p.Informers,
			Recorder: p.Recorder(localstorage.Provisioner),
		})
		started(controller)
		return err
	}}
}

// localStorageManager returns the component that keeps the volume groups of a node.
func localStorageManager(node string, groups volumegroup.Backend, started func(*localstorage.Manager)) recipe {
	return recipe{
		name:    localStorageName + "(" + node + ")",
		filters: func(func() informers.SharedInformerFactory) []fake.Filter { return localstorage.Filters(node) },
		wakes:   localStorageWakes,
		start: func(p ComponentContext) error {
			client, err := p.dynamicClient()
			if err != nil {
				return err
			}
			storage, err := localstorage.NewManager(localstorage.ManagerConfig{
				Process: p.Process, Client: p.Client, Dynamic: client, Informers: p.Informers,
				Recorder: p.Recorder(localstorage.Provisioner), Node: node, Groups: groups,
			})
			started(storage)
			return err
		},
	}
}

// bootDisks drops the mounts and devices of a node, and attaches its disks and the volumes on them
// again.
func (c *Cluster) bootDisks(n *node) error {
	if err := c.driver.boot(n.name); err != nil || n.groups == nil {
		return err
	}
	return n.groups.Activate(context.Background())
}

// LocalStorageExtender returns the scheduler extender of Config.LocalStorage, which filters and ranks
// nodes by the free space of their volume groups: the paths are /filter and /prioritize. It answers
// 503 while its component does not run. The cluster's own scheduler asks it without a network.
//
// Upstream: k8s.io/kube-scheduler/extender/v1.
func (c *Cluster) LocalStorageExtender() http.Handler {
	return extenderOf(func() *localstorage.Controller {
		if p, err := c.component(localStorageName); err != nil || p.process.Load() == nil {
			return nil
		}
		return c.localStorage.Load()
	})
}

// extenderOf returns the extender of the controller that runs; running returns nil if none does.
func extenderOf(running func() *localstorage.Controller) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		controller := running()
		if controller == nil {
			http.Error(w, "local storage: component localstorage does not run", http.StatusServiceUnavailable)
			return
		}
		controller.Handler().ServeHTTP(w, r)
	})
}
