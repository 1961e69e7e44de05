// Left out of the binary: the page has the base layout, which needs none of it.
window.SwaggerUIStandalonePreset = [];
