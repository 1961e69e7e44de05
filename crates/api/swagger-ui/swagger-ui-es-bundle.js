// Left out of the binary: the page loads swagger-ui-bundle.js.
