package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/cmd/volsim/internal/page"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/admission" // webhooks and policies
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/auditrecord"
	"github.com/volsim/volsim/sim"
)

// accessHelp describes users and their rights.
const accessHelp = "Requests are authorized by RBAC and the Node authorizer; the server starts with upstream's roles. Each controller, the scheduler,\n" +
	"each kubelet and each sidecar is the user that it is in a real cluster, with the roles that its project publishes. The kubeconfig's\n" +
	"user is in system:masters. \"kubectl --as\" and the tokens of \"kubectl create token\" show what other users may do.\n" +
	"With --rbac=false or --by-hand every user may do everything.\n"

// startTimeout is how long nodes and driver have to register.
const startTimeout = time.Minute

// tokenKeyBytes is the length of the key that signs the tokens of service accounts.
const tokenKeyBytes = 32

// recordsMax is how many trace records are kept for the page.
const recordsMax = 1000

type serveOptions struct {
	kubeconfig string
	nodes      int
	devices    string
	containers string
	dir        string
	listen     string
	page       string
	pageHosts  []string
	manual     bool
	rbac       bool
	world      worldOptions
	storage    localStorageOptions
	drivers    ownDriverOptions
	audit      auditOptions
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a cluster to kubectl, and a web page that shows it",
		Long: "serve runs a whole cluster in this process until it is interrupted: API server, control plane, nodes and CSI driver.\n" +
			"It serves HTTPS on a loopback address, with a new certificate and bearer token for each run, and writes a kubeconfig.\n" +
			"The default storage class is \"standard\": claims become Bound and pods Ready. On exit, serve removes all devices,\n" +
			"mounts and files, and its entries in the kubeconfig.\n\n" +
			"The page shows the objects, the events, and a space-time diagram of writes and cache deliveries. Its buttons crash, stop\n" +
			"and start components, such as kubelet(node-1), and partition nodes. With --by-hand nothing runs by itself: the page also\n" +
			"schedules steps, shows stale caches, holds components, and injects faults and other events.\n" +
			"Requests of kubectl take effect at once; caches see them only by later steps. Each printed link opens the page in\n" +
			"one browser.\n\n" + dirHelp +
			"On loop and lvm devices, serve prints the directory of each node's kubelet. A CSI driver registers there as on a\n" +
			"real node, with a socket in plugins_registry. Its sidecars use the kubeconfig.\n\n" + driversHelp + "\n" +
			"The usage of volumes is served as the kubelets' metrics and summary, below /api/v1/nodes/NODE/proxy.\n\n" +
			snapshotsHelp + "\n" + accessHelp + "\n" + auditHelp + "\n" +
			"With --local-storage a StorageClass names the disks of nodes, and its claims get logical volumes there. The records of\n" +
			"the volume groups are the custom resource nodelocalstorages. Other schedulers filter and rank nodes by the extender,\n" +
			"whose URL prefix serve prints.",
		Example: "  volsim serve --kubeconfig /tmp/kc &\n  kubectl --kubeconfig /tmp/kc get storageclass,node\n" +
			"  kubectl --kubeconfig /tmp/kc get --raw /api/v1/nodes/node-1/proxy/metrics\n\n" +
			"  volsim serve --kubeconfig ~/.kube/config --nodes 3 --devices array\n  volsim serve --by-hand\n" +
			"  volsim serve --devices loop --driver 'disk.example.com=exec:diskdriver --endpoint $CSI_ENDPOINT --node $NODE_NAME'\n" +
			"  volsim serve --local-storage --disk node-1:/dev/sdb=1Gi --disk node-2:/dev/sdb=2Gi",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "volsim.kubeconfig",
		"kubeconfig `file` to write; in an existing file, the context \"volsim\" is added and made the current context")
	cmd.Flags().IntVar(&o.nodes, "nodes", 2, "number of nodes")
	cmd.Flags().StringVar(&o.devices, "devices", "auto", "volume `backend`: auto, loop, lvm or array; always array with --by-hand")
	cmd.Flags().StringVar(&o.containers, "containers", string(cluster.ShellContainers),
		"what runs the commands of containers: shell (an interpreter in this process), process (confined processes of this\n"+
			"machine, with busybox; requires root and loop or lvm devices) or none; always none with --by-hand")
	cmd.Flags().StringVar(&o.dir, "dir", "", "existing `directory` for backing files and mounts of loop or lvm devices (default a temporary directory)")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of the API server; a non-loopback address admits other hosts that have the token")
	cmd.Flags().StringVar(&o.page, "page", "127.0.0.1:0", "loopback `address` of the page; \"off\" disables the page")
	cmd.Flags().StringArrayVar(&o.pageHosts, "page-host", nil, "`name` by which browsers reach the page besides localhost, such as that of a proxy; repeatable")
	cmd.Flags().BoolVar(&o.manual, "by-hand", false, "run nothing by itself; schedule every step manually on the page")
	cmd.Flags().BoolVar(&o.rbac, "rbac", true, "authorize requests by roles, as --authorization-mode=Node,RBAC; the kubeconfig's user may do everything")
	o.world.addFlags(cmd.Flags())
	o.storage.addFlags(cmd.Flags())
	o.drivers.addFlags(cmd.Flags())
	o.audit.addFlags(cmd.Flags())
	return cmd
}

// validate returns an error for invalid options.
func (o serveOptions) validate() error {
	if err := devicesFlag(o.devices); err != nil {
		return err
	}
	switch cluster.Containers(o.containers) {
	case cluster.ShellContainers, cluster.NoContainers:
	case cluster.ProcessContainers:
		if !isLoopback(o.listen) {
			return fmt.Errorf("--containers %s executes what the API's clients want on this machine: remove --listen %s, which admits other hosts", o.containers, o.listen)
		}
	default:
		return fmt.Errorf("unknown --containers %q: want %s, %s or %s", o.containers, cluster.ShellContainers, cluster.ProcessContainers, cluster.NoContainers)
	}
	if !o.pageDisabled() {
		if err := page.ValidateAddr(o.page); err != nil {
			return err
		}
	}
	for _, name := range o.pageHosts {
		if errs := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(errs) > 0 && net.ParseIP(name) == nil {
			return fmt.Errorf("invalid --page-host %q: want a host name without scheme and port, such as dev.example.com", name)
		}
	}
	switch {
	case o.kubeconfig == "":
		return errors.New("--kubeconfig is empty: specify a file")
	case o.nodes < 1:
		return fmt.Errorf("invalid --nodes %d: want at least 1", o.nodes)
	case addressFlag("--listen", o.listen) != nil:
		return addressFlag("--listen", o.listen)
	}
	if _, _, err := readKubeconfig(o.kubeconfig); err != nil {
		return err
	}
	if err := errors.Join(o.world.validate(o.devices, o.manual), o.drivers.validate(o.manual)); err != nil {
		return err
	}
	switch {
	case len(o.storage.disks) > 0 && !o.world.hasKubelets():
		return errors.New("--disk requires nodes: add kubelet to --components")
	case !o.manual:
		return o.storage.validate(o.nodeNames())
	case len(o.storage.disks) > 0:
		return errors.New("--by-hand does not support --disk: perform the operation disk on the page")
	case o.pageDisabled():
		return errors.New("--by-hand requires the page: remove --page off, or use volsim session")
	case o.devices != "auto" && o.devices != string(cluster.Array):
		return fmt.Errorf("--by-hand does not support real devices: remove --devices %s", o.devices)
	}
	return nil
}

// nodeNames returns the names of the nodes.
func (o serveOptions) nodeNames() []string {
	names := make([]string, o.nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// isLoopback reports whether only this machine can reach an address. An invalid one is reported elsewhere.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

// warnAboutAddress prints a warning if the API server can be reached from other hosts.
func warnAboutAddress(errs io.Writer, address string) {
	if isLoopback(address) {
		return
	}
	fmt.Fprintf(errs, "volsim: warning: --listen %s admits other hosts: any that has the token of the kubeconfig controls the cluster\n", address)
}

func (o serveOptions) pageDisabled() bool { return o.page == "" || o.page == "off" }

// A servedWorld is a cluster with its API handler and its page.
type servedWorld struct {
	api      http.Handler
	tokens   func(token string, audiences ...string) (authenticationv1.UserInfo, []string, error) // nil: none is valid
	world    page.World
	client   kubernetes.Interface // for the server's own objects; nil if the world must be reproducible
	kubelets []string             // directories of the kubelets on this machine
	inMemory bool                 // the nodes have no directories on this machine
	extender http.Handler         // of local storage; nil: none
	acting   []string             // the components
	close    func() error
}

func serve(ctx context.Context, out, errs io.Writer, o serveOptions) (err error) {
	if err := o.validate(); err != nil {
		return usage(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	warnAboutAddress(errs, o.listen)
	records, err := o.audit.open(ctx, out, errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	authority, err := apiserver.NewAuthority()
	if err != nil {
		return err
	}
	begin := startLive
	if o.manual {
		begin = startManual
	}
	s, err := begin(ctx, errs, authority, o, records.records())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := apiserver.Listen(apiserver.ListenConfig{Authority: authority, Addr: o.listen, Handler: s.api, Token: s.tokens})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if s.client != nil {
		if err := l.Advertise(ctx, s.client); err != nil {
			return err
		}
	}
	var extenderDone <-chan error
	extenderURL := ""
	if s.extender != nil {
		var e *extenderServer
		if e, err = o.storage.listenExtender(s.extender); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		extenderDone, extenderURL = e.Done(), e.url
	}
	var pageDone <-chan error
	pageURL := ""
	if !o.pageDisabled() {
		var p *page.Listener
		p, err = page.Listen(page.Config{World: s.world, Addr: o.page, Names: o.pageHosts, OnNewLink: func(url string) {
			fmt.Fprintf(out, "page     %s  (for another browser)\n", url)
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
	printEndpoints(out, s, endpoints{api: l.URL(), page: pageURL, extender: extenderURL}, o)
	select {
	case err := <-l.Done():
		return fmt.Errorf("serve: %w", err)
	case err := <-pageDone:
		return fmt.Errorf("serve the page: %w", err)
	case err := <-extenderDone:
		return fmt.Errorf("serve the extender: %w", err)
	case <-ctx.Done():
		fmt.Fprintln(out, "stopping")
		return nil
	}
}

// startLive starts a cluster that runs by itself.
func startLive(
	ctx context.Context, errs io.Writer, authority *apiserver.Authority, o serveOptions, records auditrecord.Log,
) (*servedWorld, error) {
	cfg := cluster.Config{
		Nodes: o.nodes, Devices: cluster.Devices(o.devices), Containers: cluster.Containers(o.containers), Dir: o.dir, Records: recordsMax,
		API: fake.Config{RootCA: string(authority.PEM()), TrackManagedFields: true, RBAC: o.rbac, TokenKey: make([]byte, tokenKeyBytes)},
	}
	_, _ = rand.Read(cfg.API.TokenKey) // it never fails
	o.world.apply(&cfg)
	cfg.LocalStorage = o.storage.on
	if err := o.drivers.apply(&cfg); err != nil {
		return nil, usage(err)
	}
	c, err := cluster.New(cfg)
	if errors.Is(err, cluster.ErrUnknownComponent) {
		return nil, unknownComponent(err)
	}
	if err != nil {
		return nil, err
	}
	printCleared(errs, c)
	crd.Serve(c.Server())
	disks, err := o.storage.parseDisks(nil)
	for _, disk := range disks {
		err = errors.Join(err, c.AddDisk(disk.node, disk.Disk))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	api := apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return c.Host().ExternalCaller() }, Audit: records,
	})
	w := &servedWorld{api: api, tokens: c.Server().AuthenticateToken, world: page.NewLive(c), client: c.Client(), close: c.Close, acting: c.Components()}
	if o.storage.hasExtender() {
		w.extender = c.LocalStorageExtender()
	}
	kind, _ := c.Devices()
	w.inMemory = kind == cluster.Array
	if !w.inMemory && o.world.hasKubelets() {
		for _, node := range o.nodeNames() {
			dir, err := c.KubeletDir(node)
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			w.kubelets = append(w.kubelets, dir)
		}
	}
	return w, nil
}

// startManual starts a world whose steps are scheduled from the page.
func startManual(
	_ context.Context, _ io.Writer, _ *apiserver.Authority, o serveOptions, records auditrecord.Log,
) (*servedWorld, error) {
	headers := append([]string{fmt.Sprintf("nodes: %d", o.nodes)}, o.world.headers()...)
	if o.storage.on {
		headers = append(headers, "local-storage: on")
	}
	desk, err := page.NewStepped(page.SteppedConfig{Headers: headers, Audit: records})
	if errors.Is(err, cluster.ErrUnknownComponent) {
		return nil, unknownComponent(err)
	}
	if err != nil {
		return nil, err
	}
	w := &servedWorld{api: desk, world: desk, close: desk.Close}
	for _, target := range desk.State().Controls.Targets {
		if target.Component {
			w.acting = append(w.acting, target.Name)
		}
	}
	return w, nil
}

// unknownComponent returns the error for the option --components.
func unknownComponent(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "session: "), "cluster: ")
	return usage(fmt.Errorf("--components: %s", text))
}

// endpoints are the URLs of a served world; "" for those that it does not have.
type endpoints struct{ api, page, extender string }

func printEndpoints(out io.Writer, s *servedWorld, at endpoints, o serveOptions) {
	kubectl := "kubectl --kubeconfig " + o.kubeconfig
	if strings.ContainsAny(o.kubeconfig, " \t'\"$") {
		kubectl = fmt.Sprintf("kubectl --kubeconfig %q", o.kubeconfig)
	}
	fmt.Fprintf(out, "serving  %s\nworld    %s\nconfig   %s\n", at.api, s.world.State().Setup, absolutePath(o.kubeconfig))
	for _, dir := range s.kubelets {
		fmt.Fprintf(out, "kubelet  %s\n", dir)
	}
	switch {
	case len(s.kubelets) > 0:
		fmt.Fprintf(out, "drivers  %s, registered by %s in each of them\n", "plugins/NAME/csi.sock", "plugins_registry/NAME-reg.sock")
	case s.inMemory:
		fmt.Fprintf(out, "drivers  none of this machine: nodes are in memory; a CSI driver needs --devices loop or lvm\n")
	}
	if o.world.snapshots {
		fmt.Fprintf(out, "snapshot %s\n", actingOnSnapshots(s.acting))
	}
	if at.extender != "" {
		fmt.Fprintf(out, "extender %s\n", at.extender)
	}
	if at.page != "" {
		fmt.Fprintf(out, "page     %s\n", at.page)
	}
	fmt.Fprintf(out, "\n  %s get storageclass,node\n\n", kubectl)
	if o.manual {
		fmt.Fprint(out, "nothing runs by itself: open the page and schedule steps\n")
	}
	fmt.Fprint(out, "stop with Ctrl-C\n")
}

// absolutePath returns the absolute form of path, or path if there is none.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
