// The blocks in the editor.
(({ blockEditor, blocks, components, element, i18n, serverSideRender }) => {
  const { __ } = i18n;
  const create = element.createElement;

  // A setting of the block: [attribute, label, component, options].
  const control = (props, [name, label, component, more]) => create(component, {
    key: name, label, ...more,
    value: props.attributes[name],
    onChange: (value) => props.setAttributes({ [name]: value }),
  });

  const common = [
    ["title", __("Heading", "freshet"), components.TextControl],
    ["limit", __("Number of posts", "freshet"), components.RangeControl, { min: 1, max: 20 }],
  ];
  const controls = {
    "freshet/hot": [...common,
      ["model", __("Order", "freshet"), components.SelectControl, { options: [
        { value: "", label: __("As Freshet is set", "freshet") },
        { value: "trending", label: __("Trending", "freshet") },
        { value: "views", label: __("Views", "freshet") },
        { value: "engagement", label: __("Engagement", "freshet") },
      ] }],
      ["tag", __("Only posts with this tag", "freshet"), components.TextControl]],
    "freshet/recommended": common,
  };

  const preview = {
    "freshet/hot": (props) => create(serverSideRender, {
      block: "freshet/hot", attributes: props.attributes,
      EmptyResponsePlaceholder: () => create(components.Placeholder, { label: __("Hot list", "freshet"), instructions: __("Nothing has been read yet, or Freshet does not answer.", "freshet") }),
    }),
    "freshet/recommended": () => create(components.Placeholder, { label: __("Recommendations", "freshet"), instructions: __("Each reader sees a list of their own here.", "freshet") }),
  };

  for (const name of Object.keys(controls)) {
    blocks.registerBlockType(name, {
      edit: (props) => create("div", blockEditor.useBlockProps(),
        create(blockEditor.InspectorControls, null,
          create(components.PanelBody, { title: __("List", "freshet") }, controls[name].map((each) => control(props, each)))),
        preview[name](props)),
      save: () => null,
    });
  }
})(window.wp);
