package cluster

import (
	"errors"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/localstorage"
)

// localStorageURL is the URL prefix of the extender of local storage. No network has the host.
const localStorageURL = "http://" + localstorage.Provisioner

// withExtenders returns the configuration of the scheduler with the extender of local storage, and the extenders
// that are asked inside the program, by URL prefix.
func (c *Cluster) withExtenders(cfg Config) (*configv1.KubeSchedulerConfiguration, map[string]*endpoint.Endpoint, error) {
	configuration, inside := cfg.Scheduler, map[string]*endpoint.Endpoint{}
	if cfg.LocalStorage && cfg.includes(localStorageName) {
		inside[localStorageURL] = endpoint.New(c.LocalStorageExtender())
		configuration = withLocalStorage(configuration)
	}
	if cfg.Stepped != nil && configuration != nil && slices.ContainsFunc(configuration.Extenders, func(e configv1.Extender) bool {
		return inside[e.URLPrefix] == nil
	}) {
		return nil, nil, errors.New("a stepped world has no network: the scheduler cannot have extenders")
	}
	return configuration, inside, nil
}

// withLocalStorage returns a configuration with the extender of local storage, unless it is listed. It is
// ignorable, so that pods without such claims are placed while its component does not run.
func withLocalStorage(configuration *configv1.KubeSchedulerConfiguration) *configv1.KubeSchedulerConfiguration {
	if configuration == nil {
		configuration = &configv1.KubeSchedulerConfiguration{}
	}
	if slices.ContainsFunc(configuration.Extenders, func(e configv1.Extender) bool { return e.URLPrefix == localStorageURL }) {
		return configuration
	}
	configuration = configuration.DeepCopy()
	configuration.Extenders = append(configuration.Extenders, configv1.Extender{
		URLPrefix: localStorageURL, FilterVerb: localstorage.FilterVerb, PrioritizeVerb: localstorage.PrioritizeVerb,
		Weight: 1, NodeCacheCapable: true, Ignorable: true,
	})
	return configuration
}
