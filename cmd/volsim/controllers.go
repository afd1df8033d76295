package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// contactTimeout is the time limit of the first requests to a server.
const contactTimeout = 10 * time.Second

// installTimeout limits the time in which a server accepts and serves definitions. It compiles their rules.
const installTimeout = time.Minute

type controllersOptions struct {
	kubeconfig string
	context    string
	only       []string
	list       bool
	trace      bool
	elect      bool
	lease      leaseOptions
	storage    localStorageOptions
}

func newControllers() *cobra.Command {
	var o controllersOptions
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run controllers against a real kube-apiserver",
		Long: "controllers runs components of the simulated control plane against the API server of a kubeconfig, until it is\n" +
			"interrupted. The default components are the storage controllers.\n\n" +
			"Disable the controllers that they replace in kube-controller-manager, for example with\n" +
			"--controllers=*,-persistentvolume-binder-controller; --list prints the names. Of several processes only the holder of\n" +
			"the Lease acts; the others wait. A process that loses the Lease exits with an error.\n\n" +
			"The scheduler has upstream's default plugins, except devices (ResourceClaims) and pod groups.\n" +
			"Each component uses its name as user agent. The client does not limit the rate of requests.\n\n" +
			"--local-storage installs the definition of nodelocalstorages and adds dynamic local storage with its scheduler extender,\n" +
			"which --only scheduler asks by itself. A kube-scheduler asks it at the printed URL.\n" +
			"The nodes that --disk names are simulated: their volume groups are in memory, and no kubelet mounts their volumes.",
		Example: "  volsim controllers --kubeconfig ~/.kube/config\n" +
			"  volsim controllers --kubeconfig ~/.kube/config --context staging --only pvcontroller,pvcprotection --trace\n" +
			"  volsim controllers --kubeconfig ~/.kube/config --local-storage --disk kwok-node-1:/dev/sdb=1Gi\n" +
			"  volsim controllers --list",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.list {
				return listComponents(cmd.OutOrStdout())
			}
			return controllers(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the API server (required)")
	flags.StringVar(&o.context, "context", "", "context of the kubeconfig (default its current context)")
	flags.StringSliceVar(&o.only, "only", nil, "comma-separated `components` to run (default the storage controllers; see --list)")
	flags.BoolVar(&o.list, "list", false, "list the components and the upstream controllers that they replace")
	flags.BoolVar(&o.trace, "trace", false, "print every action and cache delivery, not only changes to volumes")
	flags.BoolVar(&o.elect, "leader-elect", true, "act only while holding the Lease")
	o.lease.addFlags(cmd)
	o.storage.addFlags(flags)
	return cmd
}

func listComponents(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tREPLACES\tDEFAULT")
	for _, p := range cluster.RemoteComponents() {
		enabled := ""
		if p.Storage {
			enabled = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Replaces, enabled)
	}
	return w.Flush()
}

func controllers(ctx context.Context, out, errs io.Writer, o controllersOptions) (err error) {
	if o.only != nil && len(o.only) == 0 {
		return usage(errors.New("--only is empty: specify a component (see --list)"))
	}
	cfg, err := o.restConfig()
	if err != nil {
		return usage(err)
	}
	disks, err := o.storage.byNode()
	if err != nil {
		return usage(err)
	}
	log := &trace.Log{Max: recordsMax}
	parts, err := cluster.NewRemote(cluster.RemoteConfig{
		REST: cfg, Components: o.only, Log: log, LocalStorage: o.storage.on, Disks: disks,
	})
	if errors.Is(err, cluster.ErrUnknownComponent) {
		err = fmt.Errorf("--only: %w", err)
	}
	if err != nil {
		return usage(err)
	}
	server, err := serverVersion(ctx, cfg)
	if err != nil {
		return err
	}
	if err = o.install(ctx, parts); err != nil {
		return err
	}
	fmt.Fprintf(out, "server      %s, %s\ncomponents  %s\n", cfg.Host, server, strings.Join(o.components(), ", "))
	if o.storage.hasExtender() {
		var e *extenderServer
		if e, err = o.storage.listenExtender(parts.LocalStorageExtender()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		fmt.Fprintf(out, "extender    %s\n", e.url)
	}
	p := newPrinter(out, errs, o.trace)
	defer p.close()
	log.Watch(p.record)
	act := func(ctx context.Context) {
		p.info("acting")
		parts.Run(ctx)
	}
	if o.elect {
		err = o.lease.lead(ctx, cfg, p, act)
	} else {
		act(ctx)
	}
	if err == nil {
		p.info("stopped")
	}
	return err
}

// install makes the server serve the custom resources of the components.
func (o controllersOptions) install(ctx context.Context, parts *cluster.Remote) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	return parts.InstallDefinitions(ctx)
}

// restConfig reads the kubeconfig.
func (o controllersOptions) restConfig() (*clientrest.Config, error) {
	if o.kubeconfig == "" {
		return nil, errors.New("--kubeconfig is required: specify a file")
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.context, ClusterInfo: clientcmdapi.Cluster{}},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", o.kubeconfig, err)
	}
	return cfg, nil
}

// components returns the names of the components that run.
func (o controllersOptions) components() []string {
	var names []string
	for _, p := range cluster.RemoteComponents() {
		if slices.Contains(o.only, p.Name) || o.only == nil && p.Storage {
			names = append(names, p.Name)
		}
	}
	if o.storage.on {
		names = append(names, "localstorage")
	}
	return names
}

// serverVersion returns the version of the server, and checks that it accepts the credentials.
func serverVersion(ctx context.Context, cfg *clientrest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", cfg.Host, err)
	}
	raw, err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		_, err = client.Discovery().RESTClient().Get().AbsPath("/apis").Do(ctx).Raw()
	}
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", cfg.Host, err)
	}
	var v version.Info
	if err := json.Unmarshal(raw, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("reach %s: response is not from a kube-apiserver", cfg.Host)
	}
	return v.GitVersion, nil
}
