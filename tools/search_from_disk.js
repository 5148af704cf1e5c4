// Browsers forbid workers and requests on pages that are opened from the disk. There, this takes the place of the
// worker that MkDocs' search starts: it loads the index as a script and searches in the page.
if (location.protocol === "file:") {
  window.Worker = function (address) {
    var worker = this;
    var folder = address.replace(/[^/]*$/, "");
    var documents = {};
    var index;

    function loadScript(name, onLoaded) {
      var script = document.createElement("script");
      script.src = folder + name;
      script.onload = onLoaded;
      document.head.appendChild(script);
    }

    worker.postMessage = function (message) {
      if (!message.query || !index) return;
      var results = index.search(message.query).map(function (match) {
        var page = documents[match.ref];
        return { location: page.location, title: page.title, summary: page.text.substring(0, 200) };
      });
      worker.onmessage({ data: { results: results } });
    };

    loadScript("lunr.js", function () {
      loadScript("search_index.js", function () {
        index = lunr(function () {
          this.ref("location");
          this.field("title");
          this.field("text");
          search_index.docs.forEach(function (page) {
            documents[page.location] = page;
            this.add(page);
          }, this);
        });
        worker.onmessage({ data: { config: search_index.config } });
        worker.onmessage({ data: { allowSearch: true } });
      });
    });
  };
}
