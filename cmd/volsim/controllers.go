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

// contactTimeout is how long a server has to answer at first.
const contactTimeout = 10 * time.Second

type controllersOptions struct {
	kubeconfig string
	context    string
	only       []string
	list       bool
	trace      bool
	elect      bool
	lease      leaseOptions
}

func newControllers() *cobra.Command {
	var o controllersOptions
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run controllers against a real kube-apiserver",
		Long: "controllers runs parts of the control plane, as they run in a simulated cluster, against the API server of a\n" +
			"kubeconfig, until it is interrupted. Without --only these are the storage controllers.\n\n" +
			"What they stand for must not run beside them: switch it off in kube-controller-manager, as with\n" +
			"--controllers=*,-persistentvolume-binder-controller; --list tells the names. Of several processes one acts, the one that\n" +
			"holds the Lease; the others wait. Who loses it stops with an error.\n\n" +
			"The scheduler looks at what matters to volumes, and at little else.\n" +
			"Each part asks the server under a user agent of its own name, without a limit of requests but the server's.",
		Example: "  volsim controllers --kubeconfig ~/.kube/config\n" +
			"  volsim controllers --kubeconfig ~/.kube/config --context staging --only pvcontroller,pvcprotection --trace\n" +
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
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says where the API server is (required)")
	flags.StringVar(&o.context, "context", "", "context of the kubeconfig (default its current one)")
	flags.StringSliceVar(&o.only, "only", nil, "`parts` to run, separated by commas (default the storage controllers; see --list)")
	flags.BoolVar(&o.list, "list", false, "tell which parts there are, and what they stand for")
	flags.BoolVar(&o.trace, "trace", false, "print all that the parts do and hear, a line each, not only what it means for a volume")
	flags.BoolVar(&o.elect, "leader-elect", true, "act only while holding the lease")
	o.lease.addFlags(cmd)
	return cmd
}

func listComponents(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PART\tSTANDS FOR\tWITHOUT --only")
	for _, p := range cluster.RemoteComponents() {
		runs := ""
		if p.Storage {
			runs = "runs"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Replaces, runs)
	}
	return w.Flush()
}

func controllers(ctx context.Context, out, errs io.Writer, o controllersOptions) error {
	if o.only != nil && len(o.only) == 0 {
		return errors.New("--only: name a part; see --list")
	}
	cfg, err := o.restConfig()
	if err != nil {
		return err
	}
	log := &trace.Log{Max: recordsMax}
	parts, err := cluster.NewRemote(cluster.RemoteConfig{REST: cfg, Components: o.only, Log: log})
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	server, err := serverVersion(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "server  %s, %s\nparts   %s\n", cfg.Host, server, strings.Join(o.components(), ", "))
	told := newPrinter(out, errs, o.trace)
	defer told.close()
	log.Watch(told.record)
	act := func(ctx context.Context) {
		told.info("acting")
		parts.Run(ctx)
	}
	if o.elect {
		err = o.lease.lead(ctx, cfg, told, act)
	} else {
		act(ctx)
	}
	if err == nil {
		told.info("stopped")
	}
	return err
}

// restConfig reads the kubeconfig.
func (o controllersOptions) restConfig() (*clientrest.Config, error) {
	if o.kubeconfig == "" {
		return nil, errors.New("--kubeconfig: name a file; controllers never choose a server by themselves")
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

// components are the names of the parts that run.
func (o controllersOptions) components() []string {
	var names []string
	for _, p := range cluster.RemoteComponents() {
		if slices.Contains(o.only, p.Name) || o.only == nil && p.Storage {
			names = append(names, p.Name)
		}
	}
	return names
}

// serverVersion asks the server for its version, and whether it knows who asks.
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
		return "", fmt.Errorf("reach %s: the answer is not that of a kube-apiserver", cfg.Host)
	}
	return v.GitVersion, nil
}
