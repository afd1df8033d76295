// Package browser tests the page of "volsim serve" in Chromium, through the DevTools protocol. It
// is a separate module, so that users of the library do not get the dependencies for driving a
// browser.
package browser
