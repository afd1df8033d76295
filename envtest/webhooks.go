package envtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake/apiserver"
)

// WebhookInstallOptions selects configurations of webhooks, and has the address and the certificates of the suite's
// webhook server, which the manager serves:
//
//	o := &env.WebhookInstallOptions
//	webhook.NewServer(webhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir})
//
// The API server calls it by TLS on loopback. A reference to a Service with a path becomes a URL there.
type WebhookInstallOptions struct {
	// Paths are files, and directories of files, with configurations in YAML or JSON.
	Paths []string
	// MutatingWebhooks are configurations to install. Those of Paths are added.
	MutatingWebhooks []*admissionregistrationv1.MutatingWebhookConfiguration
	// ValidatingWebhooks are configurations to install. Those of Paths are added.
	ValidatingWebhooks []*admissionregistrationv1.ValidatingWebhookConfiguration

	// IgnoreSchemeConvertible makes conversion webhooks of definitions call the suite's webhook server. By default the
	// Go types of Environment.Scheme convert.
	IgnoreSchemeConvertible bool
	// IgnoreErrorIfPathMissing ignores a path that does not exist, which is an error otherwise.
	IgnoreErrorIfPathMissing bool

	LocalServingHost    string // of the webhook server; "": 127.0.0.1
	LocalServingPort    int    // of the webhook server; 0: a free one
	LocalServingCertDir string // set to a new directory with tls.crt and tls.key, which Stop removes
	LocalServingCAData  []byte // set to the certificate with which the server's is verified
	// LocalServingHostExternalName is the name by which the API server reaches the webhook server. "":
	// LocalServingHost.
	LocalServingHostExternalName string

	MaxTime      time.Duration // ignored: a configuration counts when it has been written
	PollInterval time.Duration // ignored
}

// PrepWithoutInstalling chooses address and port, creates certificates, reads the files and adapts all configurations, if
// that has not been done yet.
func (o *WebhookInstallOptions) PrepWithoutInstalling() error {
	if len(o.LocalServingCAData) > 0 {
		return nil
	}
	if err := o.choosePort(); err != nil {
		return fmt.Errorf("choose a port for webhooks: %w", err)
	}
	if err := o.createCertificates(); err != nil {
		return fmt.Errorf("create certificates for webhooks: %w", err)
	}
	if err := o.read(); err != nil {
		return fmt.Errorf("read configurations of webhooks: %w", err)
	}
	return o.ModifyWebhookDefinitions()
}

// ModifyWebhookDefinitions makes all configurations refer to the suite's webhook server.
func (o *WebhookInstallOptions) ModifyWebhookDefinitions() error {
	if err := o.choosePort(); err != nil {
		return fmt.Errorf("choose a port for webhooks: %w", err)
	}
	for _, c := range o.MutatingWebhooks {
		for i := range c.Webhooks {
			o.refer(&c.Webhooks[i].ClientConfig)
		}
	}
	for _, c := range o.ValidatingWebhooks {
		for i := range c.Webhooks {
			o.refer(&c.Webhooks[i].ClientConfig)
		}
	}
	return nil
}

// refer makes a webhook that refers to the path of a Service refer to the suite's server.
func (o *WebhookInstallOptions) refer(c *admissionregistrationv1.WebhookClientConfig) {
	c.CABundle = o.LocalServingCAData
	if c.Service != nil && c.Service.Path != nil {
		url := "https://" + o.address() + "/" + strings.TrimPrefix(*c.Service.Path, "/")
		c.URL, c.Service = &url, nil
	}
}

// address is where the API server reaches the suite's server.
func (o *WebhookInstallOptions) address() string {
	host := o.LocalServingHostExternalName
	if host == "" {
		host = o.LocalServingHost
	}
	return net.JoinHostPort(host, strconv.Itoa(o.LocalServingPort))
}

// choosePort chooses a free port, unless one is set.
func (o *WebhookInstallOptions) choosePort() error {
	if o.LocalServingPort != 0 {
		return nil
	}
	if o.LocalServingHost == "" {
		o.LocalServingHost = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.LocalServingHost, "0"))
	if err != nil {
		return err
	}
	o.LocalServingPort = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

// createCertificates writes the certificate of the suite's server and its key.
func (o *WebhookInstallOptions) createCertificates() error {
	authority, err := apiserver.NewAuthority()
	if err != nil {
		return err
	}
	cert, key, err := authority.NewServer("localhost", o.LocalServingHost, o.LocalServingHostExternalName)
	if err != nil {
		return err
	}
	if o.LocalServingCertDir, err = os.MkdirTemp("", "envtest-serving-certs-"); err != nil {
		return err
	}
	o.LocalServingCAData = authority.PEM()
	return errors.Join(
		os.WriteFile(filepath.Join(o.LocalServingCertDir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(o.LocalServingCertDir, "tls.key"), key, 0o600),
	)
}

// read adds the configurations in files.
func (o *WebhookInstallOptions) read() error {
	for _, path := range o.Paths {
		files, err := filesAt(path)
		if errors.Is(err, fs.ErrNotExist) && o.IgnoreErrorIfPathMissing {
			continue
		}
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := readDocuments(file, o.take); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	o.MutatingWebhooks = merge(nil, o.MutatingWebhooks, (*admissionregistrationv1.MutatingWebhookConfiguration).GetName)
	o.ValidatingWebhooks = merge(nil, o.ValidatingWebhooks, (*admissionregistrationv1.ValidatingWebhookConfiguration).GetName)
	return nil
}

// take adds the configuration in a document. Other documents are skipped.
func (o *WebhookInstallOptions) take(is metav1.TypeMeta, document []byte) error {
	var err error
	switch is.Kind {
	case "MutatingWebhookConfiguration":
		c := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err = yaml.Unmarshal(document, c)
		o.MutatingWebhooks = append(o.MutatingWebhooks, c)
	case "ValidatingWebhookConfiguration":
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		err = yaml.Unmarshal(document, c)
		o.ValidatingWebhooks = append(o.ValidatingWebhooks, c)
	default:
		return nil
	}
	if v := admissionregistrationv1.SchemeGroupVersion.String(); err == nil && is.APIVersion != v {
		err = fmt.Errorf("%s of %s: only %s is supported", is.Kind, is.APIVersion, v)
	}
	return err
}

// Install creates the configurations, or updates those that exist. They count when it returns.
func (o *WebhookInstallOptions) Install(config *rest.Config) error {
	if err := o.PrepWithoutInstalling(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install webhooks: %w", err)
	}
	mutating, validating := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for _, c := range o.MutatingWebhooks {
		if _, err := put(c, mutating); err != nil {
			return fmt.Errorf("install mutating webhooks %q: %w", c.Name, err)
		}
	}
	for _, c := range o.ValidatingWebhooks {
		if _, err := put(c, validating); err != nil {
			return fmt.Errorf("install validating webhooks %q: %w", c.Name, err)
		}
	}
	return nil
}

// Cleanup removes the certificates.
func (o *WebhookInstallOptions) Cleanup() error {
	if o.LocalServingCertDir == "" {
		return nil
	}
	dir := o.LocalServingCertDir
	o.LocalServingCertDir, o.LocalServingCAData = "", nil
	return os.RemoveAll(dir)
}
