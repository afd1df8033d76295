package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
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
	for prefix := range cfg.Extenders {
		inside[prefix] = endpoint.New(nil)
	}
	listed := map[string]bool{}
	if configuration != nil {
		for _, e := range configuration.Extenders {
			listed[e.URLPrefix] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(listed)) {
		if cfg.Stepped != nil && inside[prefix] == nil {
			return nil, nil, fmt.Errorf("a stepped world has no network: extender %q must be in Config.Extenders", prefix)
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(cfg.Extenders)) {
		if !listed[prefix] {
			return nil, nil, fmt.Errorf("extender %q must be in Config.Scheduler", prefix)
		}
	}
	return configuration, inside, nil
}

// addExtenders adds the components of Config.Extenders, whatever Config.Components selects.
func (c *Cluster) addExtenders(handlers map[string]http.Handler, inside map[string]*endpoint.Endpoint) error {
	for _, prefix := range slices.Sorted(maps.Keys(handlers)) {
		handler, name := handlers[prefix], "extender("+prefix+")"
		if u, err := url.Parse(prefix); err == nil && u.Host != "" {
			name = "extender(" + u.Host + ")"
		}
		if _, err := c.component(name); err == nil {
			return fmt.Errorf("extender %q: another has the same host", prefix)
		}
		state := &componentState{recipe: recipe{name: name, start: func(p ComponentContext) error {
			inside[prefix].Serve(p.Process, handler)
			return nil
		}}, extra: true}
		c.components = append(c.components, state)
		if err := c.launch(state); err != nil {
			return err
		}
	}
	return nil
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
