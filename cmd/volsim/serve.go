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
	"github.com/volsim/volsim/cmd/volsim/internal/page"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// startTimeout is how long nodes and driver have to register.
const startTimeout = time.Minute

// recordsMax is how many records of the trace are kept: what the page draws.
const recordsMax = 1000

type serveOptions struct {
	kubeconfig string
	nodes      int
	devices    string
	dir        string
	listen     string
	page       string
	manual     bool
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a cluster to kubectl and other programs, and a page of it to a browser",
		Long: "serve runs a whole cluster in this process until it is interrupted: API server, control plane, nodes and CSI driver.\n" +
			"It listens on loopback by HTTPS, under a certificate and a bearer token made anew each time, and writes a kubeconfig.\n" +
			"There is a default storage class, \"standard\": a claim that is applied becomes Bound, a pod Ready. What was made is\n" +
			"taken away at the end: devices, mounts, files, and what was added to the kubeconfig.\n\n" +
			"The page shows the objects, the events, and who did what and heard of it when. With --by-hand nothing happens by itself:\n" +
			"on the page one lets one thing happen after the other, sees who has not heard of what is so, holds parts back, and lets\n" +
			"things go wrong; what kubectl asks for takes effect at once, and nobody has heard of it. Each link that is printed opens\n" +
			"the page in one browser.",
		Example: "  volsim serve --kubeconfig /tmp/kc &\n  kubectl --kubeconfig /tmp/kc get storageclass,node\n\n" +
			"  volsim serve --kubeconfig ~/.kube/config --nodes 3 --devices array\n  volsim serve --by-hand",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.OutOrStdout(), o) },
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "volsim.kubeconfig",
		"`file` to write; in one that is there, a cluster, user and context \"volsim\" are added and made the current ones")
	cmd.Flags().IntVar(&o.nodes, "nodes", 2, "how many nodes")
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "what volumes are made of: auto, loop, lvm or array; by hand always array")
	cmd.Flags().StringVar(&o.dir, "dir", "", "with loop or lvm devices: an existing directory for the backing files and mounts (default a temporary one)")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; anything but loopback lets others in who have the token")
	cmd.Flags().StringVar(&o.page, "page", "127.0.0.1:0", "`address` of the page, on loopback; off: no page")
	cmd.Flags().BoolVar(&o.manual, "by-hand", false, "nothing happens by itself: the world is moved from the page, one thing at a time")
	return cmd
}

// validate tells what is wrong with the options.
func (o serveOptions) validate() error {
	switch {
	case o.kubeconfig == "":
		return errors.New("--kubeconfig: name a file")
	case o.nodes < 1:
		return fmt.Errorf("--nodes %d: want at least 1", o.nodes)
	case !o.manual:
		return nil
	case o.pageDisabled():
		return errors.New("--by-hand: a world is moved from the page; take --page off away, or use volsim session")
	case o.devices != "auto" && o.devices != string(cluster.Array):
		return fmt.Errorf("--by-hand: a world that stands still cannot have real devices: take --devices %s away", o.devices)
	}
	return nil
}

func (o serveOptions) pageDisabled() bool { return o.page == "" || o.page == "off" }

// servedWorld is what is served.
type servedWorld struct {
	api   http.Handler
	world page.World
	close func() error
}

func serve(ctx context.Context, out io.Writer, o serveOptions) (err error) {
	ignoreSIGPIPE()
	if err := o.validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	authority, err := apiserver.NewAuthority()
	if err != nil {
		return err
	}
	begin := startLive
	if o.manual {
		begin = startManual
	}
	s, err := begin(ctx, authority, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := apiserver.Listen(apiserver.ListenConfig{Authority: authority, Addr: o.listen, Handler: s.api})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var pageDone <-chan error
	pageURL := ""
	if !o.pageDisabled() {
		p, err := page.Listen(page.Config{World: s.world, Addr: o.page, OnNewLink: func(url string) {
			fmt.Fprintf(out, "page     %s  (for one more browser)\n", url)
		}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		pageDone, pageURL = p.Done(), p.URL()
	}
	file, err := writeKubeconfig(o.kubeconfig, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.restore()) }()
	printEndpoints(out, s.world.State().Setup, l.URL(), pageURL, o)
	select {
	case err := <-l.Done():
		return fmt.Errorf("serve: %w", err)
	case err := <-pageDone:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
		fmt.Fprintln(out, "stopping")
		return nil
	}
}

// startLive begins a world that moves by itself.
func startLive(ctx context.Context, authority *apiserver.Authority, o serveOptions) (*servedWorld, error) {
	c, err := cluster.New(cluster.Config{
		Nodes: o.nodes, Devices: cluster.Devices(o.devices), Dir: o.dir, Records: recordsMax,
		API: fake.Config{RootCA: string(authority.PEM()), TrackManagedFields: true},
	})
	if err != nil {
		return nil, err
	}
	crd.Serve(c.Server())
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	api := apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return c.Host().ExternalCaller() }})
	return &servedWorld{api, page.NewLive(c), c.Close}, nil
}

// startManual begins a world that is moved from the page.
func startManual(_ context.Context, _ *apiserver.Authority, o serveOptions) (*servedWorld, error) {
	desk, err := page.NewStepped(fmt.Sprintf("nodes: %d", o.nodes))
	if err != nil {
		return nil, err
	}
	return &servedWorld{desk, desk, desk.Close}, nil
}

func printEndpoints(out io.Writer, made, url, pageURL string, o serveOptions) {
	kubectl := "kubectl --kubeconfig " + o.kubeconfig
	if strings.ContainsAny(o.kubeconfig, " \t'\"$") {
		kubectl = fmt.Sprintf("kubectl --kubeconfig %q", o.kubeconfig)
	}
	fmt.Fprintf(out, "serving  %s\nworld    %s\nconfig   %s\n", url, made, absolutePath(o.kubeconfig))
	if pageURL != "" {
		fmt.Fprintf(out, "page     %s\n", pageURL)
	}
	fmt.Fprintf(out, "\n  %s get storageclass,node\n\n", kubectl)
	if o.manual {
		fmt.Fprint(out, "nothing happens by itself: open the page, and step\n")
	}
	fmt.Fprint(out, "stop with Ctrl-C\n")
}

// absolutePath is a path as it reads best: whole.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
