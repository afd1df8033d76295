package kubelet

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestCheckImageName: the results are those of upstream's parser.
//
// Upstream: github.com/distribution/reference v0.6.0 TestParseReferenceWithTagAndDigest and its like.
func TestCheckImageName(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("a1", 32)
	for name, want := range map[string]string{
		"busybox":                            "",
		"busybox:1.36":                       "",
		"library/busybox":                    "",
		"example.com/team/app:v1":            "",
		"Example.com:5000/app":               "",
		"localhost/a":                        "",
		"[::1]:5000/app":                     "",
		"a_b.c/app":                          "",
		"a--b__c/d.e@sha256:" + hex:          "",
		"app:v1@sha256:" + hex:               "",
		"index.docker.io/app":                "",
		"":                                   invalidReference,
		"busybox:":                           invalidReference,
		":latest":                            invalidReference,
		"-busybox":                           invalidReference,
		"busybox ":                           invalidReference,
		"a___b":                              invalidReference,
		"a..b":                               invalidReference,
		"a//b":                               invalidReference,
		"host:port/app":                      invalidReference,
		"[]/app":                             invalidReference,
		"app:" + strings.Repeat("t", 129):    invalidReference,
		"app@sha256:abc":                     invalidReference,
		"app@sha256":                         invalidReference,
		"A_b.c/app":                          uppercaseName,
		"Busybox":                            "invalid reference format: repository name (library/Busybox) must be lowercase",
		"example.com/App:v1":                 "invalid reference format: repository name (App) must be lowercase",
		hex:                                  "invalid repository name (" + hex + "), cannot specify 64-byte hexadecimal strings",
		strings.Repeat("x", 248):             longName,
		"app@sha256:" + hex + "00":           digestLength,
		"app@sha256:" + strings.ToUpper(hex): invalidDigest,
		"app@md5:" + hex:                     unknownDigest,
	} {
		testcheck.Equal(t, name, want, checkImageName(name))
	}
}
