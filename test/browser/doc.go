// Package browser tests the page of "volsim serve" in a real browser, chromium, by its DevTools protocol. It is a module of
// its own, so that what drives a browser is never got with the library.
package browser
