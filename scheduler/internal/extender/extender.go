package extender

import (
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/sim"
)

// Name stands for all extenders where the plugins are listed that rejected a pod. Any event may help such
// a pod.
//
// Upstream: pkg/scheduler/framework ExtenderName (v1.36).
const Name = "Extender"

// timeoutDefault is how long the scheduler waits for an extender without httpTimeout.
//
// Upstream: pkg/scheduler DefaultExtenderTimeout (v1.36).
const timeoutDefault = 5 * time.Second

// An Extender is one extender of a scheduler. Its methods that take a context are for tasks of the
// scheduler's process.
//
// Upstream: pkg/scheduler HTTPExtender (v1.36).
type Extender struct {
	cfg       configv1.Extender
	timeout   time.Duration
	resources sets.Set[string] // managed
	process   *sim.Process
	endpoint  *endpoint.Endpoint // nil: client is used
	client    *http.Client
}

// New returns an extender that receives requests of a process at an endpoint, or by HTTP if that is nil. It
// fails if a file of the TLS configuration cannot be used.
//
// Upstream: pkg/scheduler NewHTTPExtender (v1.36).
func New(process *sim.Process, cfg configv1.Extender, at *endpoint.Endpoint) (*Extender, error) {
	e := &Extender{cfg: cfg, timeout: cfg.HTTPTimeout.Duration, resources: sets.Set[string]{}, process: process, endpoint: at}
	if e.timeout == 0 {
		e.timeout = timeoutDefault
	}
	for _, r := range cfg.ManagedResources {
		e.resources.Insert(r.Name)
	}
	if at != nil {
		return e, nil
	}
	transport, err := newTransport(&cfg)
	if err != nil {
		return nil, err
	}
	e.client = &http.Client{Transport: transport, Timeout: e.timeout}
	return e, nil
}

// newTransport returns the transport for requests over a network. Without the CA of a server, HTTPS does
// not verify its certificate.
//
// Upstream: pkg/scheduler makeTransport (v1.36).
func newTransport(cfg *configv1.Extender) (http.RoundTripper, error) {
	var config rest.Config
	if c := cfg.TLSConfig; c != nil {
		config.TLSClientConfig = rest.TLSClientConfig{
			Insecure: c.Insecure, ServerName: c.ServerName, CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile,
			CertData: c.CertData, KeyData: c.KeyData, CAData: c.CAData,
		}
	}
	if cfg.EnableHTTPS && config.CAFile == "" && len(config.CAData) == 0 {
		config.Insecure = true
	}
	tls, err := rest.TLSConfigFor(&config)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls}), nil
}

// URL returns the prefix of the extender's URLs, which is its name.
func (e *Extender) URL() string { return e.cfg.URLPrefix }

// IsIgnorable reports whether errors of the extender are ignored.
func (e *Extender) IsIgnorable() bool { return e.cfg.Ignorable }

// IsFilter reports whether the extender filters nodes.
func (e *Extender) IsFilter() bool { return e.cfg.FilterVerb != "" }

// IsPrioritizer reports whether the extender ranks nodes.
func (e *Extender) IsPrioritizer() bool { return e.cfg.PrioritizeVerb != "" }

// IsBinder reports whether the extender assigns pods to nodes.
func (e *Extender) IsBinder() bool { return e.cfg.BindVerb != "" }

// SupportsPreemption reports whether the extender is asked about victims.
func (e *Extender) SupportsPreemption() bool { return e.cfg.PreemptVerb != "" }

// IsInterested reports whether the extender is asked about a pod: if it manages no resources, or a
// container has a request or a limit of one that it manages.
//
// Upstream: pkg/scheduler HTTPExtender.IsInterested (v1.36).
func (e *Extender) IsInterested(pod *corev1.Pod) bool {
	return len(e.resources) == 0 || e.manages(pod.Spec.Containers) || e.manages(pod.Spec.InitContainers)
}

func (e *Extender) manages(containers []corev1.Container) bool {
	for i := range containers {
		for _, list := range []corev1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
			for name := range list {
				if e.resources.Has(string(name)) {
					return true
				}
			}
		}
	}
	return false
}
