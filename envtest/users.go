package envtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/rbac"
	"github.com/volsim/volsim/sim"
)

// A User is a user of the API server.
type User struct {
	Name   string
	Groups []string // in addition to system:authenticated
}

// An AuthenticatedUser is a user with access to the API server. It is valid until the environment
// is stopped.
type AuthenticatedUser struct {
	user       User
	running    *running
	config     *rest.Config
	kubeconfig []byte // guarded by running.mu
}

// AddUser returns access as a user. Settings of the base configuration, such as QPS, are kept,
// except those of its host, credentials and transport. It may be nil. The environment must be
// running.
//
// The user may do what roles allow, as on the real server: nothing but discovery and reviews of its own access,
// until a role is bound to it or to one of its groups. Field managers are named for the program.
func (e *Environment) AddUser(user User, base *rest.Config) (*AuthenticatedUser, error) {
	if e.running == nil {
		return nil, fmt.Errorf("envtest: add user %q: %w", user.Name, errNotStarted)
	}
	return &AuthenticatedUser{user: user, running: e.running, config: configFor(e.running.cluster, user, base)}, nil
}

// Config returns a configuration for clients of this process. Requests are answered in memory.
func (u *AuthenticatedUser) Config() *rest.Config { return u.config }

// KubeConfig returns a kubeconfig for kubectl and other processes. The first call begins to serve
// HTTPS on a free port of 127.0.0.1, until the environment is stopped.
func (u *AuthenticatedUser) KubeConfig() ([]byte, error) {
	r := u.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.kubeconfig != nil {
		return u.kubeconfig, nil
	}
	if r.stopped {
		return nil, fmt.Errorf("envtest: kubeconfig of user %q: %w", u.user.Name, errNotStarted)
	}
	caller := r.cluster.Host().ExternalCaller()
	listener, err := apiserver.Listen(apiserver.ListenConfig{
		Handler: apiserver.NewHandler(r.cluster.Server(), apiserver.HandlerConfig{
			Caller: func(*http.Request) sim.Caller { return caller },
			Client: u.user.client,
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("envtest: kubeconfig of user %q: %w", u.user.Name, err)
	}
	r.listeners = append(r.listeners, listener)
	u.kubeconfig, err = clientcmd.Write(*listener.Kubeconfig("envtest"))
	return u.kubeconfig, err
}

// client returns a client as one of the user.
func (u User) client(client *fake.Clientset) *fake.Clientset {
	info := authenticationv1.UserInfo{Username: u.Name, Groups: slices.Clone(u.Groups)}
	if !slices.Contains(info.Groups, rbac.AuthenticatedGroup) {
		info.Groups = append(info.Groups, rbac.AuthenticatedGroup)
	}
	return client.AsUser(info)
}

// configFor returns the configuration of a user's clients, in memory.
func configFor(c *cluster.Cluster, user User, base *rest.Config) *rest.Config {
	inMemory := apiserver.NewConfig(c.Server(), c.Host().ExternalCaller(), user.client)
	if base == nil {
		return inMemory
	}
	config := rest.CopyConfig(base)
	config.Host, config.Transport, config.TLSClientConfig = inMemory.Host, inMemory.Transport, rest.TLSClientConfig{}
	config.BearerToken, config.BearerTokenFile, config.Username, config.Password = "", "", "", ""
	config.AuthProvider, config.ExecProvider, config.Dial, config.Proxy = nil, nil, nil, nil
	config.QPS = cmp.Or(config.QPS, inMemory.QPS)
	return config
}
