package cluster

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/controllers/clusterroleaggregation"
	"github.com/volsim/volsim/controllers/serviceaccounttoken"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/rbac"
)

// This file has the users that components are, with fake.Config.RBAC: each is the user that its program is in a
// real cluster, with the roles that its project publishes.
//
// Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy; deploy/kubernetes of the sidecars.

// sidecarRoles are the service accounts, roles and bindings that the sidecars' projects and csi-driver-host-path
// publish, in the namespace kube-system, one object a line. A conformance test compares them with the published files.
//
//go:embed sidecarroles.jsonl
var sidecarRoles []byte

// otherRoles are those of the validator of data sources.
//
//go:embed otherroles.jsonl
var otherRoles []byte

// accounts are the service accounts of components in the namespace kube-system. Components without one, such
// as those of users, are system:admin.
var accounts = map[string]string{
	"pvcontroller": "persistent-volume-binder", "pvprotection": "pv-protection-controller",
	"pvcprotection": "pvc-protection-controller", "vacprotection": "volumeattributesclass-protection-controller",
	"attachdetach": "attachdetach-controller", "expand": "expand-controller", "ephemeral": "ephemeral-volume-controller",
	"garbagecollector": "generic-garbage-collector", "namespace": "namespace-controller",
	"serviceaccount": "service-account-controller", "rootca": "root-ca-cert-publisher",
	"nodelifecycle": "node-controller", "tainteviction": "node-controller", "podgc": "pod-garbage-collector",
	"resourcequota": "resourcequota-controller", "disruption": "disruption-controller",
	"statefulset": "statefulset-controller", "deployment": "deployment-controller", "daemonset": "daemon-set-controller",
	"job": "job-controller", "cronjob": "cronjob-controller", "ttlafterfinished": "ttl-after-finished-controller",
	aggregationName: "clusterrole-aggregation-controller",
	"replicaset":    "replicaset-controller", "replicationcontroller": "replication-controller",

	"provisioner": "csi-provisioner", "attacher": "csi-attacher", "resizer": "csi-resizer", "snapshotter": "csi-snapshotter",
	snapshotControllerName: "snapshot-controller", "healthmonitor": "csi-external-health-monitor-controller",
	"datasourcevalidator": "volume-data-source-validator",
}

// HostPathAccount is the user of a pod that runs the driver and all sidecars, as that of csi-driver-host-path: a
// service account that is bound to the roles of all sidecars.
const HostPathAccount = "system:serviceaccount:kube-system:csi-hostpathplugin-sa"

// aggregationName is the name of the component that aggregates cluster roles.
const aggregationName = "clusterroleaggregation"

// controllerManager is the user whose caches the controllers of the kube-controller-manager share.
const controllerManager = "system:kube-controller-manager"

// An identity is the user of a component and of its caches; nil is system:admin.
type identity struct{ client, caches *authenticationv1.UserInfo }

// identity returns the users of a component.
//
// Differs: the caches of a kubelet are not limited, as they replace single reads.
func (p *recipe) identity() identity {
	if p.user != "" {
		user := userNamed(p.user)
		return identity{user, user}
	}
	kind, of, _ := strings.Cut(strings.TrimSuffix(p.name, "#2"), "(")
	switch kind {
	case "kubelet":
		user := userNamed("system:node:" + strings.TrimSuffix(of, ")"))
		user.Groups = append([]string{"system:nodes"}, user.Groups...)
		return identity{client: user}
	case "scheduler":
		user := userNamed("system:kube-scheduler")
		return identity{user, user}
	case tokensName: // it makes the tokens of the other controllers' accounts
		user := userNamed(controllerManager)
		return identity{user, user}
	}
	account, ok := accounts[kind]
	if !ok {
		return identity{}
	}
	user := fake.AccountUser(metav1.NamespaceSystem, account)
	if strings.HasSuffix(p.replaces, "-controller") && p.driver == "" && kind != snapshotControllerName {
		return identity{&user, userNamed(controllerManager)}
	}
	return identity{&user, &user}
}

// userNamed returns a user with the groups that follow from the name.
func userNamed(name string) *authenticationv1.UserInfo {
	if namespace, name, ok := rbac.SplitAccount(name); ok {
		user := fake.AccountUser(namespace, name)
		return &user
	}
	return &authenticationv1.UserInfo{Username: name, Groups: []string{rbac.AuthenticatedGroup}}
}

// tokensName is the name of the component that writes tokens to secrets.
const tokensName = "serviceaccounttoken"

// accessComponents returns the controller of tokens in secrets, which needs the key of the API server, and that of
// roles, if the API server uses them.
func (c *Cluster) accessComponents() []recipe {
	all := []recipe{{
		name: tokensName, replaces: "serviceaccount-token-controller", filters: tokenFilters, wakes: tokenWakes,
		start: func(p ComponentContext) error {
			serviceaccounttoken.New(serviceaccounttoken.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, RootCA: c.rootCA, Token: c.server.LegacyToken,
			})
			return nil
		},
	}}
	if !c.rbac {
		return all
	}
	return append(all, recipe{name: aggregationName, replaces: "clusterrole-aggregation-controller", start: func(p ComponentContext) error {
		clusterroleaggregation.New(clusterroleaggregation.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
		return nil
	}})
}

// addRoles stores the roles of the components that are no part of Kubernetes.
func (c *Cluster) addRoles() error {
	var objects []runtime.Object
	for line := range bytes.Lines(append(bytes.Clone(sidecarRoles), otherRoles...)) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(line); err != nil {
			return fmt.Errorf("roles of sidecars: %w", err)
		}
		objects = append(objects, obj)
	}
	return c.server.Add(objects...)
}
