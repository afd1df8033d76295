package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/fake/rest"
	"github.com/volsim/volsim/sim"
)

// startTimeout is how long nodes and driver have to register.
const startTimeout = time.Minute

// recordsMax is how many records of the trace are kept: nobody reads it so far.
const recordsMax = 1000

type serveOptions struct {
	kubeconfig string
	nodes      int
	devices    string
	dir        string
	listen     string
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API of a cluster to kubectl and other programs",
		Long: "serve runs a whole cluster in this process until it is interrupted: API server, control plane, nodes and CSI driver.\n" +
			"It listens on loopback by HTTPS, under a certificate and a bearer token made anew each time, and writes a kubeconfig.\n" +
			"There is a default storage class, \"standard\": a claim that is applied becomes Bound, a pod Ready. What was made is\n" +
			"taken away at the end: devices, mounts, files, and what was added to the kubeconfig.",
		Example: "  volsim serve --kubeconfig /tmp/kc &\n  kubectl --kubeconfig /tmp/kc get storageclass,node\n\n" +
			"  volsim serve --kubeconfig ~/.kube/config --nodes 3 --devices array",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.OutOrStdout(), o) },
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "volsim.kubeconfig",
		"`file` to write; in one that is there, a cluster, user and context \"volsim\" are added and made the current ones")
	cmd.Flags().IntVar(&o.nodes, "nodes", 2, "how many nodes")
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "what volumes are made of: auto, loop, lvm or array")
	cmd.Flags().StringVar(&o.dir, "dir", "", "with loop or lvm devices: an existing directory for the backing files and mounts (default a temporary one)")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; anything but loopback lets others in who have the token")
	return cmd
}

func serve(ctx context.Context, out io.Writer, o serveOptions) (err error) {
	switch {
	case o.kubeconfig == "":
		return errors.New("--kubeconfig: name a file")
	case o.nodes < 1:
		return fmt.Errorf("--nodes %d: want at least 1", o.nodes)
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	authority, err := rest.NewAuthority()
	if err != nil {
		return err
	}
	c, err := cluster.New(cluster.Config{
		Nodes: o.nodes, Devices: cluster.Devices(o.devices), Dir: o.dir, Records: recordsMax,
		API: fake.Config{RootCA: string(authority.PEM()), TrackManagedFields: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	crd.Serve(c.Server())
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return err
	}
	l, err := rest.Listen(rest.ListenConfig{
		Authority: authority, Addr: o.listen, Handler: rest.NewHandler(c.Server(), rest.HandlerConfig{Caller: func(*http.Request) sim.Caller { return c.Host().Outside() }}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	file, err := writeKubeconfig(o.kubeconfig, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.restore()) }()
	announce(out, c, l, o)
	select {
	case err := <-l.Done():
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		fmt.Fprintln(out, "stopping")
		return nil
	}
}

func announce(out io.Writer, c *cluster.Cluster, l *rest.Listener, o serveOptions) {
	kubectl := "kubectl --kubeconfig " + o.kubeconfig
	if strings.ContainsAny(o.kubeconfig, " \t'\"$") {
		kubectl = fmt.Sprintf("kubectl --kubeconfig %q", o.kubeconfig)
	}
	_, why := c.Devices()
	fmt.Fprintf(out, "serving  %s\nnodes    %d; volumes are made of %s\nconfig   %s\n\n  %s get storageclass,node\n\nstop with Ctrl-C\n",
		l.URL(), o.nodes, why, absolute(o.kubeconfig), kubectl)
}

// absolute is a path as it reads best: whole.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
